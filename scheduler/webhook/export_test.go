package webhook

import "net"

// SetResolver makes c look hosts up with r.
func (c *Client) SetResolver(r *net.Resolver) { c.resolver = r }
