package main

import (
	"os"
	"testing"

	"chronos/internal/heldup"
)

func TestMain(m *testing.M) { os.Exit(heldup.Main(m, os.Stderr)) }
