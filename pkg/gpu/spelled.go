package gpu

import "strings"

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// spelled is the syntax of a name in an annotation: the allowed first characters, the allowed other characters, and the length. A large cluster has
// hundreds of thousands of such names, and a new leader reads them all. That is why it is not a regular expression, which takes ten times as long.
type spelled struct {
	first, rest charset
	least, most int
}

// The names that annotations hold.
var (
	uuidSpelled    = spelled{charsetOf(upper + lower + digits), charsetOf(upper + lower + digits + "._:/-"), 1, 128}
	switchSpelled  = spelled{charsetOf(upper + lower + digits + "._:/-"), charsetOf(upper + lower + digits + "._:/-"), 0, 64}
	healthSpelled  = spelled{charsetOf(upper), charsetOf(upper + lower + digits), 1, 32}
	profileSpelled = spelled{charsetOf(lower + digits), charsetOf(lower + digits + ".+-"), 1, 63}
	podUIDSpelled  = spelled{charsetOf(upper + lower + digits + "-"), charsetOf(upper + lower + digits + "-"), 0, 64}
)

// charset is the set of allowed bytes.
type charset [256]bool

func charsetOf(characters string) (set charset) {
	for c := range set {
		set[c] = strings.IndexByte(characters, byte(c)) >= 0
	}
	return set
}

// fits reports whether a name is spelled so.
func (s *spelled) fits(name string) bool {
	if len(name) < s.least || len(name) > s.most {
		return false
	}
	if name == "" {
		return true
	}
	if !s.first[name[0]] {
		return false
	}
	for i := 1; i < len(name); i++ {
		if !s.rest[name[i]] {
			return false
		}
	}
	return true
}
