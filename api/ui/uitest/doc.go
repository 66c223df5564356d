// Package uitest has what tests of the dashboard share: a cluster in memory, and a driver of a real
// browser.
package uitest
