package cli

import (
	"context"
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// checkFit tells, before anything is created, which jobs no node of the cluster could ever hold: it warns of them, or
// refuses them if that is required. It keeps quiet where the user may not list nodes, and where there are none yet.
func (o *createOptions) checkFit(ctx context.Context, creations []creation) error {
	if o.offline || !slices.ContainsFunc(creations, func(c creation) bool { return c.Job != nil }) {
		return nil
	}
	reader, err := o.factory.reader()
	if err != nil {
		return err
	}
	offers, err := reader.Offers(ctx)
	switch {
	case exitCode(err) == exitForbidden && !o.requireFit, err == nil && len(offers) == 0 && !o.requireFit:
		return nil
	case err != nil:
		return err
	}
	if slices.ContainsFunc(creations, func(c creation) bool { return c.Pool != nil }) {
		return nil // a pool may give the jobs beside it the nodes that they lack
	}
	return o.judgeFit(creations, offers)
}

// judgeFit warns of each job that none of the nodes on offer could hold, or refuses the first.
func (o *createOptions) judgeFit(creations []creation, offers []inventory.Offer) error {
	for _, c := range creations {
		if c.Job == nil {
			continue
		}
		why := diagnosis.Misfit(&c.Job.Resources, offers)
		switch {
		case why == "":
		case o.requireFit:
			return &cannotFitError{what: fmt.Sprintf("%s can never run: %s\nNothing was created", c, why)}
		default:
			fmt.Fprintf(o.factory.IO.ErrOut, "%s:%d: warning: %s will wait for nodes that are not there: %s\n", c.file, c.Line, c, why)
		}
	}
	return nil
}
