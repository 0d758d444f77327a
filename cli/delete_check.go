package cli

import (
	"context"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// checkTargetsExist refuses to delete anything if one of several named objects does not exist: the name may be misspelt, or may not be a name at all,
// such as pods in "delete pods etl".
func (o *deleteOptions) checkTargetsExist(ctx context.Context, writer *submit.Client, targets []target, args []string) error {
	if len(args) < 2 || len(targets) < 2 || o.ignoreNotFound || len(o.files) > 0 {
		return nil
	}
	missing := failures{factory: o.factory}
	for _, t := range targets {
		err := o.checkExists(ctx, writer, t)
		if err != nil && exitCode(err) != exitNotFound {
			return err
		}
		missing.addError(err)
	}
	if missing.isEmpty() {
		return nil
	}
	if len(targets) == len(args) && exitCode(o.checkExists(ctx, writer, targets[0])) == exitNotFound {
		if err := explainUnknownClass(args[0], args[1:]); err != nil {
			return err
		}
	}
	last := &missing.errs[len(missing.errs)-1]
	*last = phrase.Errorf("%w\nNothing was deleted", *last)
	return missing.firstError()
}

// checkExists returns an error if an object to delete does not exist, and nil if it does.
func (o *deleteOptions) checkExists(ctx context.Context, writer *submit.Client, t target) error {
	switch t.class {
	case classPool:
		reader, err := o.factory.newReader()
		if err != nil {
			return err
		}
		offers, err := reader.Offers(ctx)
		if err == nil && !slices.ContainsFunc(offers, func(offer inventory.Offer) bool { return offer.Pool == t.Name }) {
			return &notFoundError{
				what: phrase.Textf("pool %q", t.Name), near: suggestSimilarBy(t.Name, offers, func(o *inventory.Offer) string { return o.Pool }),
			}
		}
		return err
	case classQuota:
		quotas, err := writer.Quotas(ctx, t.Name)
		if err == nil && len(quotas) == 0 {
			return &submit.QuotaNotFoundError{Name: t.Name}
		}
		return err
	case classReservation:
		_, err := writer.Reservation(ctx, t.Name)
		return err
	case classNamespace:
		_, err := writer.OwnNamespace(ctx, t.Name)
		return err
	}
	return writer.Exists(ctx, t.Ref)
}

// explainUnknownClass explains a first word that is not a job but looks like a kubectl resource or a misspelt class; nil if it looks like neither.
func explainUnknownClass(word string, rest []string) error {
	job := "gpuctl delete job " + strings.Join(rest, " ")
	switch strings.ToLower(word) {
	case "node", "nodes", "no":
		return usageErrorf("nodes are not deleted. Take them out of their pools: gpuctl remove node %s --pool POOL\nNothing was deleted", strings.Join(rest, " "))
	case "pod", "pods", "po":
		return usageErrorf("pods are deleted by job: did you mean %s?\nNothing was deleted", job)
	case "preset", "presets":
		return usageErrorf("presets are removed one by one: gpuctl set preset %s --delete\nNothing was deleted", strings.Join(rest[:min(len(rest), 1)], ""))
	case "deployment", "deployments", "deploy", "service", "services", "svc":
		return usageErrorf("unknown resource type %q: did you mean %s?\nNothing was deleted", word, job)
	}
	var known []string
	for name := range classes {
		if len(name) > 2 { // every word is close to "ns"
			known = append(known, name)
		}
	}
	slices.Sort(known)
	near := spelling.Nearest(word, known)
	if near == "" {
		return nil
	}
	return usageErrorf("no job is named %q: did you mean gpuctl delete %s %s?\nNothing was deleted", word, near, strings.Join(rest, " "))
}
