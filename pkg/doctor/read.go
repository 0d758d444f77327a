package doctor

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// needed are the rights that gpuctl needs.
var needed = []Right{
	{For: "submit jobs", Verb: "create", Group: "batch", Kind: "jobs"},
	{For: "submit services", Verb: "create", Group: "apps", Kind: "deployments"},
	{For: "keep names of jobs apart", Verb: "create", Group: "coordination.k8s.io", Kind: "leases"},
	{For: "list jobs", Verb: "list", Group: "batch", Kind: "jobs"},
	{For: "list pods", Verb: "list", Kind: "pods"},
	{For: "read output", Verb: "get", Kind: "pods/log"},
	{For: "run commands in pods", Verb: "create", Kind: "pods/exec"},
	{For: "delete jobs", Verb: "delete", Group: "batch", Kind: "jobs"},
	{For: "see nodes", Verb: "list", Kind: "nodes", All: true},
	{For: "see who holds GPUs", Verb: "list", Kind: "pods", All: true},
}

// Reader gathers facts: a dozen requests, whatever the size of the cluster.
type Reader struct {
	client kubernetes.Interface
	config *rest.Config
	mu     sync.Mutex // held while changing facts
}

// NewReader returns a Reader that reads with client's identity, which is config's.
func NewReader(client kubernetes.Interface, config *rest.Config) *Reader {
	return &Reader{client: client, config: config}
}

// Read gathers the facts as they concern a user of a namespace. now is our clock.
func (r *Reader) Read(ctx context.Context, namespace string, now func() time.Time) (Facts, error) {
	f := Facts{Rights: make([]Right, len(needed)), Namespace: namespace}
	if err := r.server(ctx, &f, now); err != nil {
		return f, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, right := range needed {
		group.Go(func() error { return r.right(ctx, namespace, right, &f.Rights[i]) })
	}
	group.Go(func() error { return r.groups(&f) })
	group.Go(func() error { return r.part(&f, PartPriorityClasses, r.priorityClasses(ctx, &f)) })
	group.Go(func() error { return r.part(&f, PartLease, r.lease(ctx, &f)) })
	group.Go(func() error { return r.part(&f, PartNodes, r.nodes(ctx, &f)) })
	group.Go(func() error { return r.part(&f, PartPolicies, r.policies(ctx, &f)) })
	group.Go(func() error { return r.part(&f, PartNamespaces, r.namespaces(ctx, &f)) })
	return f, group.Wait()
}

// part notes a part that the user may not read, and returns every other error.
func (r *Reader) part(f *Facts, part Part, err error) error {
	if apierrors.IsForbidden(err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.Unread = append(f.Unread, part)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", part, err)
	}
	return nil
}

// server asks for the version, and notes the clock that the answer carries.
func (r *Reader) server(ctx context.Context, f *Facts, now func() time.Time) error {
	version, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	f.Server = version.GitVersion
	f.Now = now()
	client, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(r.config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, base.JoinPath("version").String(), nil)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the API server for its time: %w", err)
	}
	f.Now = now()
	f.ServerTime, _ = http.ParseTime(response.Header.Get("Date")) // without one the clocks are not compared
	return response.Body.Close()
}

func (r *Reader) right(ctx context.Context, namespace string, right Right, out *Right) error {
	kind, sub := right.Kind, ""
	for i := range kind {
		if kind[i] == '/' {
			kind, sub = kind[:i], kind[i+1:]
			break
		}
	}
	if right.All {
		namespace = metav1.NamespaceAll
	}
	review, err := r.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: right.Verb, Group: right.Group, Resource: kind, Subresource: sub,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for your rights: %w", err)
	}
	*out = right
	out.Allowed = review.Status.Allowed
	return nil
}

func (r *Reader) groups(f *Facts) error {
	groups, err := r.client.Discovery().ServerGroups()
	if err != nil {
		return fmt.Errorf("reading the API groups: %w", err)
	}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			f.Groups = append(f.Groups, version.GroupVersion)
		}
	}
	return nil
}

func (r *Reader) priorityClasses(ctx context.Context, f *Facts) error {
	list, err := r.client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range list.Items {
			f.PriorityClasses = append(f.PriorityClasses, list.Items[i].Name)
		}
	}
	return err
}

func (r *Reader) lease(ctx context.Context, f *Facts) error {
	lease, err := r.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, names.SchedulerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		f.Lease = lease
	}
	return err
}

func (r *Reader) nodes(ctx context.Context, f *Facts) error {
	const fromCache = "0" // some milliseconds old, and read from memory
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
	if err == nil {
		f.Nodes = list.Items
	}
	return err
}

// namespaces reads all namespaces, or that of the user alone, with the right for that.
func (r *Reader) namespaces(ctx context.Context, f *Facts) error {
	list, err := r.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err == nil {
		f.Namespaces = list.Items
	}
	if !apierrors.IsForbidden(err) {
		return err
	}
	own, err := r.client.CoreV1().Namespaces().Get(ctx, f.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		f.Namespaces = append(f.Namespaces, *own)
	}
	return err
}

func (r *Reader) policies(ctx context.Context, f *Facts) error {
	policies, err := r.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	bindings, err := r.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range policies.Items {
		f.Policies = append(f.Policies, policies.Items[i].Name)
	}
	for i := range bindings.Items {
		f.Bindings = append(f.Bindings, bindings.Items[i].Name)
	}
	return nil
}
