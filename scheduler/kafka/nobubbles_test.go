//go:build !synctests

package kafka

const builtForBubbles = false
