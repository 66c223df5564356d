// Package cli is the command line of chronos: one tree of commands, which ask nodes by package client.
//
//	cli.go      the tree, and how a run ends
//	status.go   exit statuses and errors
//	asking.go   the listeners that a command asks, and with which token
//	output.go   tables, JSON and text that may be shown
//	create.go, timer.go, many.go, filter.go   chronos timer
//	cluster.go  chronos status and chronos healthcheck
//	topology.go chronos topology
//	dead.go, deadmany.go   chronos dead
//	token.go, config.go    what asks no node
package cli
