package store

import "time"

// Namespace is one that may be read. Its name may have been that of another before it was deleted: what was created before
// Begin is that one's, and is not read. The zero time has all of it read.
type Namespace struct {
	Name  string
	Begin time.Time
}

// Has reports whether what was created in a namespace of a name, at a time, is in this one. Both are to the second, as
// Kubernetes writes them.
func (n *Namespace) Has(name string, created time.Time) bool {
	return n.Name == name && !created.Before(n.Begin)
}
