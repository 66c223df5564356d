package timer

// DelayRange refuses a delay.
func DelayRange() *InvalidError {
	return Invalid("", "by-range", "the delay is not from 1 millisecond on, or the pop would come over 100 years from now; give a delay in these bounds")
}
