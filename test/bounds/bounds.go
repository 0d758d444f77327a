// Package bounds says how long what is tested may take, and which tests take too long to run on every change.
//
// The docs say how soon things are on a machine that does nothing else, and `make chaos`, `make test-node` and `make abuse` hold us to it.
// As a part of all tests, beside other packages on two cores, a bound only tells what comes late from what does not come.
package bounds

import (
	"os"
	"testing"
	"time"
)

// Patience is how long a test waits for what takes seconds. It costs those tests alone that fail.
const Patience = 3 * time.Minute

// slack is the least that a busy machine may take longer.
const slack = 5 * time.Second

// Of returns how long something may take of which the docs give a duration: just that where BOUNDS=docs is set, else twice as long,
// and at least 5 s longer.
func Of(documented time.Duration) time.Duration {
	if os.Getenv("BOUNDS") == "docs" {
		return documented
	}
	return documented + max(documented, slack)
}

// SkipInShort skips a test of more than some twenty seconds under -short, with which `make test` runs; `make test-all` runs it.
func SkipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test-all runs it")
	}
}
