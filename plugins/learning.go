package plugins

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/ledger/learn"
)

// newLearner returns a function that updates reservations from a ledger in the background. A replay asks no ledger, and uses given run times. All
// profiles share the reservations, so they must name the same ledger.
func newLearner(promises *backfill.StartReservations, deps Dependencies) func(context.Context, string, string, *rest.Config) error {
	if deps.Replay {
		return func(context.Context, string, string, *rest.Config) error {
			promises.SetHistory(deps.Past)
			return nil
		}
	}
	var mu sync.Mutex
	var from client.Options
	return func(ctx context.Context, address, authority string, config *rest.Config) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case from.Address == "":
		case from.Address == address && from.CA == authority:
			return nil
		default:
			return fmt.Errorf("another profile names %s with the authority %q: name one ledger in all of them", from.Address, from.CA)
		}
		if config == nil {
			return fmt.Errorf("the scheduler has no credentials to ask %s with", address)
		}
		asked, err := client.New(config, client.Options{Address: address, CA: authority})
		if err != nil {
			return err
		}
		from.Address, from.CA = address, authority
		go learn.RefreshHistory(ctx, asked.Runs, promises.SetHistory)
		return nil
	}
}
