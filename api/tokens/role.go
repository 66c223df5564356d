package tokens

import (
	"errors"
	"strings"
)

// Role is what a token may be used for. Each role includes the lower roles. The zero value is no
// role and allows nothing.
type Role uint8

// The roles, from the least to the greatest.
const (
	Read  Role = iota + 1 // GET, of timers and metrics
	Write                 // also POST, PUT and DELETE of timers
	Admin                 // everything: all timers at once, the topology, profiles
)

// ParseRoles reads roles separated by commas, at least one role, and returns the highest. The error
// does not hold the text.
func ParseRoles(text string) (Role, error) {
	var highest Role
	for word := range strings.SplitSeq(text, ",") {
		role := roleOf(word)
		if role == 0 {
			return 0, errors.New(faultRoles)
		}
		highest = max(highest, role)
	}
	return highest, nil
}

func roleOf(word string) Role {
	for role := Read; role <= Admin; role++ {
		if word == role.String() {
			return role
		}
	}
	return 0
}

// String is the role's word in the tokens file, or "none" if r is no role.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

// Allows reports whether a token of role r may be used for a request that needs the role need.
// Allows returns false if r or need is no role.
func (r Role) Allows(need Role) bool {
	return Read <= need && need <= r && r <= Admin
}
