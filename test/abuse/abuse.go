// Package abuse says how hard its sub-packages try the programs with what hostile users can do.
package abuse

import (
	"os"
	"time"
)

// All tells whether every round is run, on a machine that does nothing else: `make abuse`, by ABUSE=all. As a part of all
// tests a slice of them is.
func All() bool { return os.Getenv("ABUSE") == "all" }

// OthersWait is how long the pods of those who have done nothing wrong may wait. As a part of all tests it is far from what
// the other programs of the machine make of it, and from what a hostile user would.
func OthersWait() time.Duration {
	if All() {
		return 2 * time.Second
	}
	return 8 * time.Second
}
