package gpu

import "strings"

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// nameSpelling is the syntax of a name in an annotation: the allowed first characters, the allowed other characters, and the length. A large cluster has
// hundreds of thousands of such names, and a new leader reads them all. That is why it is not a regular expression, which takes ten times as long.
type nameSpelling struct {
	first, rest          charset
	minLength, maxLength int
}

// The names that annotations hold.
var (
	uuidSpelling    = nameSpelling{newCharset(upper + lower + digits), newCharset(upper + lower + digits + "._:/-"), 1, 128}
	switchSpelling  = nameSpelling{newCharset(upper + lower + digits + "._:/-"), newCharset(upper + lower + digits + "._:/-"), 0, 64}
	healthSpelling  = nameSpelling{newCharset(upper), newCharset(upper + lower + digits), 1, 32}
	profileSpelling = nameSpelling{newCharset(lower + digits), newCharset(lower + digits + ".+-"), 1, 63}
	podUIDSpelling  = nameSpelling{newCharset(upper + lower + digits + "-"), newCharset(upper + lower + digits + "-"), 0, 64}
)

// charset is the set of allowed bytes.
type charset [256]bool

func newCharset(characters string) (set charset) {
	for c := range set {
		set[c] = strings.IndexByte(characters, byte(c)) >= 0
	}
	return set
}

// allowsName reports whether a name is spelled so.
func (s *nameSpelling) allowsName(name string) bool {
	if len(name) < s.minLength || len(name) > s.maxLength {
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
