// Package conflict tries a write again that others' writing got in the way of.
package conflict

import (
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Retry calls write until it fails with no conflict, or as often as backoff has steps, and returns what came of the last call.
// [retry.RetryOnConflict] takes the error of a write whose context ended for the end of its own waiting, and returns nil: what was
// never written was said to be.
func Retry(backoff wait.Backoff, write func() error) error {
	var last error
	_ = retry.RetryOnConflict(backoff, func() error { //nolint:forbidigo // its error is not used
		last = write()
		return last
	})
	return last
}
