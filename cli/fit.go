package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
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
		why := misfit(&c.Job.Resources, offers)
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

// misfit says why no node could ever hold a pod that asks so much, "" if one could. Only what pools, types and numbers
// of GPUs tell is looked at: gpuctl why knows the rest once the job is there.
func misfit(asked *workload.Resources, offers []inventory.Offer) string {
	var pools, types []string
	var most int64
	for _, offer := range offers {
		pools = append(pools, offer.Pool)
		if offer.Pool != asked.Pool {
			continue
		}
		types = append(types, offer.GPUType)
		if len(asked.GPUTypes) == 0 || slices.Contains(asked.GPUTypes, offer.GPUType) {
			most = max(most, offer.MostGPUs, offer.MostShared)
		}
	}
	known := slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "" })
	switch {
	case !slices.Contains(pools, asked.Pool):
		return fmt.Sprintf("no node is in pool %q%s", asked.Pool, didYouMean(asked.Pool, pools))
	case asked.GPU == 0:
		return ""
	case len(asked.GPUTypes) > 0 && !slices.ContainsFunc(asked.GPUTypes, func(t string) bool { return slices.Contains(types, t) }):
		return fmt.Sprintf("no node of pool %s has GPUs of type %s%s; it has %s", asked.Pool,
			strings.Join(asked.GPUTypes, " or "), didYouMean(asked.GPUTypes[0], known), orNone(known))
	case most < asked.GPU:
		return fmt.Sprintf("a pod asks for %s, and the largest such node of pool %s has %d", plural(int(asked.GPU), "GPU"), asked.Pool, most)
	}
	return ""
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
