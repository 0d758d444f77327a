package cli

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// checkFit reports, before anything is created, jobs that no node of the cluster could ever hold. It warns, or refuses them if require is set. It is
// silent if the user may not list nodes, or if there are no nodes yet.
func (m *manifests) checkFit(ctx context.Context, creations []creation, require bool) error {
	if m.offline || !slices.ContainsFunc(creations, func(c creation) bool { return c.Job != nil }) {
		return nil
	}
	reader, err := m.factory.newReader()
	if err != nil {
		return err
	}
	offers, err := reader.Offers(ctx)
	switch {
	case exitCode(err) == exitForbidden && !require, err == nil && len(offers) == 0 && !require:
		return nil
	case err != nil:
		return err
	}
	if !slices.ContainsFunc(creations, func(c creation) bool { return c.Pool != nil }) { // a new pool may add the nodes that the jobs need
		if err := m.checkJobsFit(creations, offers, require); err != nil {
			return err
		}
	}
	return nil
}

// checkQuotas reports, before anything is created, jobs that a quota of their namespace does not admit. It warns, or, if require is set, refuses jobs
// that the quota would never admit. It is silent if the user may not list quotas.
func (m *manifests) checkQuotas(ctx context.Context, creations []creation, require bool) error {
	jobs := jobCreations(creations)
	bounded := slices.ContainsFunc(creations, func(c creation) bool { return c.Quota != nil }) // the quota may change with this command
	if m.offline || bounded || len(jobs) == 0 {
		return nil
	}
	reader, err := m.factory.newReader()
	if err != nil {
		return err
	}
	quotas := map[string][]corev1.ResourceQuota{}
	for _, c := range jobs {
		namespace := c.objects[0].GetNamespace()
		if _, read := quotas[namespace]; !read {
			if quotas[namespace], err = reader.NamespaceQuotas(ctx, namespace); err != nil {
				return err
			}
		}
		over := quota.FindJobExcess(quotas[namespace], c.objects[0])
		switch {
		case over == nil:
			quotas[namespace] = quota.WithJob(quotas[namespace], c.objects[0]) // later jobs get what remains
		case require && over.Never:
			return &overQuotaError{what: phrase.Textf("%s %s\nNothing was created", c, over)}
		default:
			m.factory.IO.printErr("%swarning: %s %s", c.fieldPrefix("resources"), c, over.Warning())
		}
	}
	return nil
}

// checkJobsFit warns of each job that none of the offered nodes could hold, or refuses the first one.
func (m *manifests) checkJobsFit(creations []creation, offers []inventory.Offer, require bool) error {
	for _, c := range creations {
		if c.Job == nil {
			continue
		}
		why := diagnosis.ExplainMisfit(&c.Job.Resources, offers)
		switch {
		case len(why) == 0:
		case require:
			return &cannotFitError{what: phrase.Textf("%s can never run: %s\nNothing was created", c, why)}
		default:
			m.factory.IO.printErr("%swarning: %s", c.fieldPrefix("resources"), willWaitText(c.String(), why))
		}
	}
	return nil
}

func willWaitText(job string, why phrase.Text) phrase.Text {
	return phrase.Textf("%s will wait for nodes that are not there: %s", job, why)
}

// explainMisfit says why no node of a pool could ever hold a job, or nothing if one could or if the user may not list nodes.
func (f *Factory) explainMisfit(ctx context.Context, writer *submit.Client, ref submit.Ref, pool string) (phrase.Text, error) {
	doc, err := writer.Document(ctx, ref)
	if err != nil || doc.Job == nil {
		return nil, err
	}
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	offers, err := reader.Offers(ctx)
	switch {
	case exitCode(err) == exitForbidden:
		return nil, nil
	case err != nil:
		return nil, err
	}
	if !slices.ContainsFunc(offers, func(o inventory.Offer) bool { return o.Pool == pool }) {
		return nil, nil // the move itself reports that the pool has no nodes
	}
	asked := doc.Job.Resources
	asked.Pool = pool
	return diagnosis.ExplainMisfit(&asked, offers), nil
}
