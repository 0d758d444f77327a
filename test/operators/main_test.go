// Package operators tests that the workloads of other projects' operators are gangs, though nobody writes a PodGroup: with the operators
// themselves, as programs of their own, and the webhooks and CRDs that they publish. They are built by make test-operators; without them nothing
// is tested.
package operators

import (
	"context"
	"fmt"
	"os"
	"testing"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// pools has two nodes with 8 GPUs for each test.
const pools = 48

var cluster = clustertest.Cluster{Fleet: clustertest.Pools(pools, 2), PodGroups: true}

func TestMain(m *testing.M) {
	for _, operator := range operators {
		if _, err := os.Stat(operator.program()); err != nil {
			fmt.Fprintf(os.Stderr, "\n*** NOTHING IS TESTED WITH OPERATORS: make test-operators builds them: %v\n\n", err)
			return
		}
	}
	cluster.Prepare = startOperators
	cluster.Parallel()
	cluster.Main(m)
}

func startOperators(ctx context.Context) error {
	for _, operator := range operators {
		if err := operator.start(ctx, cluster.Sandbox); err != nil {
			return fmt.Errorf("starting %s: %w", operator.name, err)
		}
	}
	return nil
}
