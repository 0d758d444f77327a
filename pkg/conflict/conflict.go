// Package conflict retries writes after conflicts.
package conflict

import (
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Retry calls write until it returns no conflict, or as often as backoff has steps, and returns the last result. [retry.RetryOnConflict] mistakes the
// error of a write whose context ended for the end of its own wait and returns nil, as if the write had succeeded.
func Retry(backoff wait.Backoff, write func() error) error {
	var last error
	_ = retry.RetryOnConflict(backoff, func() error { //nolint:forbidigo // its error is not used
		last = write()
		return last
	})
	return last
}
