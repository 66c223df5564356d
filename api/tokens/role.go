package tokens

import (
	"errors"
	"strings"
)

// Role is what a token may be used for: a set of rights. The zero value is no role and allows nothing.
type Role uint8

// The roles. Each role but List includes the roles before it, and Admin includes List.
const (
	Read  Role = 1 << iota            // GET, of timers with a known id and of metrics
	Write      = Role(1<<iota) | Read // also POST, PUT, PATCH and DELETE of timers
	List       = Role(1<<iota) | Read // also finding timers among all timers, and what shows timers of all
	Admin      = Role(1<<iota) | Write | List
)

// named are the roles with a word in the tokens file.
func named() []Role { return []Role{Read, Write, List, Admin} }

// ParseRoles reads roles separated by commas, at least one role, and returns the role that includes all of
// them. The error does not hold the text.
func ParseRoles(text string) (Role, error) {
	var all Role
	for word := range strings.SplitSeq(text, ",") {
		role := roleOf(word)
		if role == 0 {
			return 0, errors.New(faultRoles)
		}
		all |= role
	}
	return all, nil
}

func roleOf(word string) Role {
	for _, role := range named() {
		if word == role.word() {
			return role
		}
	}
	return 0
}

func (r Role) word() string {
	switch r {
	case Read:
		return "read"
	case Write:
		return "write"
	case List:
		return "list"
	case Admin:
		return "admin"
	default:
		return ""
	}
}

// String is the role as the tokens file has it, such as "write" or "write,list", or "none" if r is no role.
func (r Role) String() string {
	if word := r.word(); word != "" {
		return word
	}
	if r == Write|List {
		return "write,list"
	}
	return "none"
}

// Allows reports whether a token of role r may be used for a request that needs the role need. Allows
// returns false if r or need is no role.
func (r Role) Allows(need Role) bool {
	return r.String() != "none" && need.String() != "none" && r&need == need
}
