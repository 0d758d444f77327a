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

// nearPatience is how long a command that has failed already may look for what was meant.
const nearPatience = 2 * time.Second

// near is what to add to the error that something is not there: what is called nearly so.
func (f *Factory) near(ctx context.Context, err error) phrase.Text {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	switch resource, name := missingObject(err); resource {
	case resourceNodes:
		return f.nearNode(ctx, name)
	case resourceNamespaces:
		return f.nearNamespace(ctx, name)
	case resourceReservations:
		return f.nearReservation(ctx, name)
	case resourceQuotas:
		return f.nearQuota(ctx, name)
	}
	return f.nearJob(ctx, err)
}

// Resources that have names which users type.
const (
	resourceNodes      = "nodes"
	resourceNamespaces = "namespaces"

	resourceReservations = "gpureservations"
	resourceQuotas       = "quotas"
)

// missingObject is the object that an error says is not there, and of which resource.
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

func (f *Factory) nearNode(ctx context.Context, name string) phrase.Text {
	reader, err := f.reader()
	if err != nil {
		return nil
	}
	_, nodes, err := reader.NodeLabels(ctx)
	if err != nil {
		return nil
	}
	return meant(name, nodes)
}

func (f *Factory) nearReservation(ctx context.Context, name string) phrase.Text {
	reader, err := f.reader()
	if err != nil {
		return nil
	}
	reservations, err := reader.Reservations(ctx, f.Now())
	if err != nil {
		return nil
	}
	return meantBy(name, reservations, func(r *inventory.Reservation) string { return r.Name })
}

func (f *Factory) nearQuota(ctx context.Context, name string) phrase.Text {
	reader, err := f.reader()
	if err != nil {
		return nil
	}
	quotas, err := reader.Quotas(ctx, "")
	if err != nil {
		return nil
	}
	return meantBy(name, quotas, func(q *inventory.Quota) string { return q.Name })
}

func (f *Factory) nearNamespace(ctx context.Context, name string) phrase.Text {
	namespaces, err := f.namespaces(ctx)
	if err != nil {
		return nil
	}
	return meantBy(name, namespaces, func(n *inventory.Namespace) string { return n.Name })
}

// findNamespace is the error that the namespace of jobs is not there, with what was meant; nil if it is, or nobody can
// tell.
func (f *Factory) findNamespace(ctx context.Context) error {
	name, err := f.namespace()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	namespaces, err := f.namespaces(ctx)
	if err != nil || slices.ContainsFunc(namespaces, func(n inventory.Namespace) bool { return n.Name == name }) {
		return nil
	}
	return &notFoundError{
		what: phrase.Of("namespace %q", name), near: meantBy(name, namespaces, func(n *inventory.Namespace) string { return n.Name }),
	}
}

// nearJob is what to add to the error that a job is not there: one whose name is near. It is "" for every other error,
// and when none is near or the jobs cannot be listed.
func (f *Factory) nearJob(ctx context.Context, err error) phrase.Text {
	namespace, name := missingJob(err)
	if name == "" {
		return nil
	}
	if broken := f.broken(ctx, namespace, name); len(broken) > 0 {
		return broken
	}
	reader, err := f.reader()
	if err != nil {
		return nil
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace})
	if err != nil {
		return nil
	}
	if near := meantBy(name, jobs, func(job *inventory.Job) string { return job.Name }); len(near) > 0 {
		return near
	}
	if absent := f.findNamespace(ctx); absent != nil && len(jobs) == 0 {
		return phrase.Of("\n%s", absent)
	}
	elsewhere, err := reader.Jobs(ctx, inventory.JobQuery{Name: name})
	if err != nil {
		return nil
	}
	return inNamespaces(elsewhere, namespace)
}

// broken says of a job that is not there that somebody was stopped who made it again, and what to do; nothing of any other.
func (f *Factory) broken(ctx context.Context, namespace, name string) phrase.Text {
	writer, err := f.writer()
	if err != nil {
		return nil
	}
	known, err := writer.Broken(ctx, submit.Ref{Namespace: namespace, Name: name})
	if err != nil || known == nil {
		return nil
	}
	return phrase.Of("\nIt was to be made again, and whoever did was stopped, as Lease %[3]s says: gpuctl resume %[1]s -n %[2]s shows its Job and asks "+
		"whether to make it, gpuctl delete %[1]s -n %[2]s gives it up", name, namespace, known.GetName())
}

// findPool is the error that no node is in a pool, with what was meant; nil if one is, or nobody can tell.
func (f *Factory) findPool(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	reader, err := f.reader()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	offers, err := reader.Offers(ctx)
	if err != nil || slices.ContainsFunc(offers, func(offer inventory.Offer) bool { return offer.Pool == name }) {
		return nil
	}
	return &notFoundError{
		what: phrase.Of("pool %q", name), near: meantBy(name, offers, func(o *inventory.Offer) string { return o.Pool }),
	}
}

// inNamespaces is a line that tells in which other namespaces jobs are; "" if in none.
func inNamespaces(jobs []inventory.Job, here string) phrase.Text {
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
		return phrase.Of("\nThere is one in namespace %s: add -n %s", others[0], others[0])
	}
	return phrase.Of("\nThere are such in other namespaces: %s", someOf(quotes(others), maxOthers))
}

// maxOthers is how many namespaces a line names.
const maxOthers = 5

// missingJob is the job that an error says is not there, "" if it says something else.
func missingJob(err error) (namespace, name string) {
	var missing *inventory.NotFoundError
	if errors.As(err, &missing) {
		return missing.Namespace, missing.Name
	}
	return "", ""
}

// meantBy is as meant for things that have names.
func meantBy[T any](name string, known []T, nameOf func(*T) string) phrase.Text {
	names := make([]string, len(known))
	for i := range known {
		names[i] = nameOf(&known[i])
	}
	return meant(name, names)
}

// meant is a line that names what is near to a name, or begins with it; "" if nothing does. The name itself is never
// meant: the user has looked for it, and not for want of the right word.
func meant(name string, known []string) phrase.Text {
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
	return phrase.Of("\nDid you mean %s?", near)
}
