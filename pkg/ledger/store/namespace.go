package store

import "time"

// Namespace is a readable namespace. Its name may have belonged to another one before: objects created before Begin belonged to that one and are not
// read. With the zero time everything is read.
type Namespace struct {
	Name  string
	Begin time.Time
}

// Has reports whether an object created in a namespace with a name at a time is in this one. Both times have the precision of seconds, as in
// Kubernetes.
func (n *Namespace) Has(name string, created time.Time) bool {
	return n.Name == name && !created.Before(n.Begin)
}
