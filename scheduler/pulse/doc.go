// Package pulse counts what a node does, and is the text by which the node tells all nodes. The node sends
// the text with every heartbeat, so the text is short, and any node can show all nodes.
package pulse
