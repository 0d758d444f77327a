package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// suggestTimeout is how long a command that has already failed may search for a similar name.
const suggestTimeout = 2 * time.Second

// suggestObject returns the addition to a not-found error: a similar name.
func (f *Factory) suggestObject(ctx context.Context, err error) phrase.Text {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTimeout)
	defer cancel()
	switch resource, name := missingObject(err); resource {
	case resourceNodes:
		return f.suggestNode(ctx, name)
	case resourceNamespaces:
		return f.suggestNamespace(ctx, name)
	case resourceReservations:
		return f.suggestReservation(ctx, name)
	case resourceQuotas:
		return f.suggestQuota(ctx, name)
	}
	return f.suggestJob(ctx, err)
}

// Resources whose names users type.
const (
	resourceNodes      = "nodes"
	resourceNamespaces = "namespaces"

	resourceReservations = "gpureservations"
	resourceQuotas       = "quotas"
)

// missingObject returns the resource and name of the object that an error reports as missing.
func missingObject(err error) (resource, name string) {
	var nodes *submit.MissingNodesError
	var namespace *submit.NamespaceNotFoundError
	var reservation *submit.ReservationNotFoundError
	var quota *submit.QuotaNotFoundError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &nodes) && len(nodes.Nodes) > 0:
		return resourceNodes, nodes.Nodes[0]
	case errors.As(err, &namespace):
		return resourceNamespaces, namespace.Name
	case errors.As(err, &reservation):
		return resourceReservations, reservation.Name
	case errors.As(err, &quota):
		return resourceQuotas, quota.Name
	case apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil:
		return status.Status().Details.Kind, status.Status().Details.Name
	}
	return "", ""
}

func (f *Factory) suggestNode(ctx context.Context, name string) phrase.Text {
	reader, err := f.newReader()
	if err != nil {
		return nil
	}
	_, nodes, err := reader.NodeLabels(ctx)
	if err != nil {
		return nil
	}
	return suggestSimilar(name, nodes)
}

func (f *Factory) suggestReservation(ctx context.Context, name string) phrase.Text {
	reader, err := f.newReader()
	if err != nil {
		return nil
	}
	reservations, err := reader.Reservations(ctx, f.Now())
	if err != nil {
		return nil
	}
	return suggestSimilarBy(name, reservations, func(r *inventory.Reservation) string { return r.Name })
}

func (f *Factory) suggestQuota(ctx context.Context, name string) phrase.Text {
	reader, err := f.newReader()
	if err != nil {
		return nil
	}
	quotas, err := reader.Quotas(ctx, "")
	if err != nil {
		return nil
	}
	return suggestSimilarBy(name, quotas, func(q *inventory.Quota) string { return q.Name })
}

func (f *Factory) suggestNamespace(ctx context.Context, name string) phrase.Text {
	namespaces, err := f.readNamespaces(ctx)
	if err != nil {
		return nil
	}
	return suggestSimilarBy(name, namespaces, func(n *inventory.Namespace) string { return n.Name })
}

// checkNamespaceExists returns an error if the namespace of jobs does not exist, with a similar name. It returns nil if the namespace exists or
// cannot be checked.
func (f *Factory) checkNamespaceExists(ctx context.Context) error {
	name, err := f.currentNamespace()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTimeout)
	defer cancel()
	namespaces, err := f.readNamespaces(ctx)
	if err != nil || slices.ContainsFunc(namespaces, func(n inventory.Namespace) bool { return n.Name == name }) {
		return nil
	}
	return &notFoundError{
		what: phrase.Textf("namespace %q", name), near: suggestSimilarBy(name, namespaces, func(n *inventory.Namespace) string { return n.Name }),
	}
}

// suggestJob returns the addition to a not-found error of a job: a similar name. It is "" for every other error, and if there is no similar name or
// jobs cannot be listed.
func (f *Factory) suggestJob(ctx context.Context, err error) phrase.Text {
	namespace, name := missingJob(err)
	if name == "" {
		return nil
	}
	if broken := f.interruptedJobText(ctx, namespace, name); len(broken) > 0 {
		return broken
	}
	reader, err := f.newReader()
	if err != nil {
		return nil
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace, Foreign: true})
	if err != nil {
		return nil
	}
	if at := slices.IndexFunc(jobs, func(job inventory.Job) bool { return job.Foreign && job.Name == name }); at >= 0 {
		foreign := inventory.ForeignError{Namespace: namespace, Kind: jobs[at].Kind, Name: name}
		return phrase.Textf("\n%s", foreign.Message())
	}
	if near := suggestSimilarBy(name, jobs, func(job *inventory.Job) string { return job.Name }); len(near) > 0 {
		return near
	}
	if absent := f.checkNamespaceExists(ctx); absent != nil && len(jobs) == 0 {
		return phrase.Textf("\n%s", absent)
	}
	elsewhere, err := reader.Jobs(ctx, inventory.JobQuery{Name: name, Foreign: true})
	if err != nil {
		return nil
	}
	return otherNamespacesText(elsewhere, namespace)
}

// interruptedJobText explains that the replacement of a missing job was interrupted, and what to do. It is empty for any other job.
func (f *Factory) interruptedJobText(ctx context.Context, namespace, name string) phrase.Text {
	writer, err := f.newWriter()
	if err != nil {
		return nil
	}
	known, err := writer.InterruptedReplacement(ctx, submit.Ref{Namespace: namespace, Name: name})
	if err != nil || known == nil {
		return nil
	}
	return phrase.Textf("\nIt was to be made again, and whoever did was stopped, as Lease %[3]s says: gpuctl resume %[1]s -n %[2]s shows its Job and asks "+
		"whether to make it, gpuctl delete %[1]s -n %[2]s gives it up", name, namespace, known.GetName())
}

// checkPoolExists returns an error if no node is in a pool, with a similar name; nil if a node is, or if that cannot be checked.
func (f *Factory) checkPoolExists(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	reader, err := f.newReader()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTimeout)
	defer cancel()
	offers, err := reader.Offers(ctx)
	if err != nil || slices.ContainsFunc(offers, func(offer inventory.Offer) bool { return offer.Pool == name }) {
		return nil
	}
	return &notFoundError{
		what: phrase.Textf("pool %q", name), near: suggestSimilarBy(name, offers, func(o *inventory.Offer) string { return o.Pool }),
	}
}

// otherNamespacesText lists the other namespaces in which such jobs exist; "" if none.
func otherNamespacesText(jobs []inventory.Job, here string) phrase.Text {
	var others []string
	for _, job := range jobs {
		if job.Namespace != here {
			others = append(others, job.Namespace)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	switch {
	case len(others) == 0:
		return nil
	case len(others) == 1:
		return phrase.Textf("\nThere is one in namespace %s: add -n %s", others[0], others[0])
	}
	return phrase.Textf("\nThere are such in other namespaces: %s", listUpTo(quoteWords(others), maxOthers))
}

// maxOthers is the maximum number of namespaces in a line.
const maxOthers = 5

// missingJob returns the job that an error reports as missing, or "".
func missingJob(err error) (namespace, name string) {
	var missing *inventory.NotFoundError
	if errors.As(err, &missing) {
		return missing.Namespace, missing.Name
	}
	return "", ""
}

// suggestSimilarBy is [suggestSimilar] for objects that have names.
func suggestSimilarBy[T any](name string, known []T, nameOf func(*T) string) phrase.Text {
	names := make([]string, len(known))
	for i := range known {
		names[i] = nameOf(&known[i])
	}
	return suggestSimilar(name, names)
}

// suggestSimilar suggests a name that is similar to the given one or begins with it; "" if there is none. The name itself is never suggested: the
// user has already looked for it.
func suggestSimilar(name string, known []string) phrase.Text {
	if slices.Contains(known, name) {
		return nil
	}
	near := spelling.Nearest(name, known)
	for _, candidate := range known {
		if near == "" && len(name) > 2 && strings.HasPrefix(candidate, name) {
			near = candidate
		}
	}
	if near == "" {
		return nil
	}
	return phrase.Textf("\nDid you mean %s?", near)
}
