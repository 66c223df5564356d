package main

import (
	"os"
	"testing"

	"chronos/scheduler/verify/heldup"
)

func TestMain(m *testing.M) { os.Exit(heldup.Main(m, os.Stderr)) }
