// Package sandboxtest runs the tests of a package on one sandbox that they share.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// patience is how long a sandbox may take to be ready.
const patience = 3 * time.Minute

// Tests are the tests of a package, or any part of them: a *testing.M.
type Tests interface{ Run() int }

// Prepare makes a sandbox what the tests need. ctx ends when they begin.
type Prepare func(ctx context.Context, cluster *sandbox.Sandbox) error

// Main starts a sandbox, prepares it, runs the tests and stops it. It returns the exit code for TestMain. What goes
// wrong before or after the tests is told on standard error.
func Main(tests Tests, options sandbox.Options, prepare Prepare) int {
	code, err := run(tests, options, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the sandbox of the tests:", err)
		return max(code, 1)
	}
	return code
}

func run(tests Tests, options sandbox.Options, prepare Prepare) (code int, err error) {
	options.Progress = os.Stderr
	cluster, err := start(options, prepare)
	if cluster != nil {
		defer func() { err = errors.Join(err, cluster.Stop()) }()
	}
	if err != nil {
		return 1, err
	}
	code = tests.Run()
	return code, ends(cluster.Err(), os.Stderr)
}

// ends tells of the programs that ended by themselves, which often is why a test failed. The error is of those that panicked: where they
// are started again nothing else may show it.
func ends(crashes <-chan error, out io.Writer) error {
	var panics []error
	for {
		select {
		case err := <-crashes:
			var exit *sandbox.ExitError
			if errors.As(err, &exit) && exit.HasPanicked() {
				panics = append(panics, fmt.Errorf("a program panicked: %w", err))
				continue
			}
			fmt.Fprintln(out, "a program ended by itself:", err)
		default:
			return errors.Join(panics...)
		}
	}
}

// start returns the sandbox even when preparing it failed, for it has to be stopped.
func start(options sandbox.Options, prepare Prepare) (*sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cluster, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return cluster, prepare(ctx, cluster)
}
