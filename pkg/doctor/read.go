package doctor

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
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
	{For: "attach to programs", Verb: "create", Kind: "pods/attach"},
	{For: "delete jobs", Verb: "delete", Group: "batch", Kind: "jobs"},
	{For: "see nodes", Verb: "list", Kind: "nodes", All: true},
	{For: "see who holds GPUs", Verb: "list", Kind: "pods", All: true},
}

// Read gathers the facts for a user of a namespace, in some twenty requests whatever the size of the cluster. now is the clock of this machine.
func Read(ctx context.Context, client kubernetes.Interface, namespace string, now func() time.Time) (Facts, error) {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return Facts{}, phrase.Errorf("asking the API server for its version: %w", err)
	}
	f := Facts{Server: version.GitVersion, Namespace: namespace, Rights: make([]Right, len(needed))}
	unknown := false
	group, ctx := errgroup.WithContext(ctx)
	for i, right := range needed {
		group.Go(func() error { return readRight(ctx, client, namespace, right, &f.Rights[i]) })
	}
	group.Go(func() error { return readGroups(client, &f) })
	group.Go(func() (err error) {
		unknown, err = readPolicies(ctx, client, &f)
		return err
	})
	group.Go(func() error { return f.readController(ctx, client) })
	group.Go(func() error { return f.readManager(ctx, client) })
	group.Go(func() error { return f.readSchedulerRights(ctx, client) })
	var clock, read *snapshot.Snapshot
	group.Go(func() (err error) {
		clock, err = snapshot.Read(ctx, client, snapshot.Clock(now()))
		f.Local = now()
		return err
	})
	group.Go(func() (err error) {
		read, err = snapshot.Read(ctx, client, snapshot.PriorityClasses().IfAllowed(), snapshot.Lease().IfAllowed(),
			snapshot.Nodes(snapshot.Scope{Cached: true}).IfAllowed(),
			snapshot.Pods(snapshot.Scope{Fields: snapshot.LivePods, Cached: true}).IfAllowed(), snapshot.ResourceSlices().IfAllowed(),
			snapshot.Jobs(snapshot.Scope{Cached: true}).IfAllowed(),
			snapshot.Namespaces().OrElse(snapshot.Namespace(namespace).IfAllowed()))
		return err
	})
	if err := group.Wait(); err != nil {
		return f, err
	}
	f.Snapshot, f.Now, f.ClockTold = *read, clock.Now, clock.ClockTold
	if unknown {
		f.MarkUnread(snapshot.PartPolicies)
	}
	return f, nil
}

// readRight asks whether the user has a right.
func readRight(ctx context.Context, client kubernetes.Interface, namespace string, right Right, out *Right) error {
	kind, sub, _ := strings.Cut(right.Kind, "/")
	if right.All {
		namespace = metav1.NamespaceAll
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: right.Verb, Group: right.Group, Resource: kind, Subresource: sub,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return phrase.Errorf("asking for your rights: %w", err)
	}
	*out = right
	out.Allowed = review.Status.Allowed
	return nil
}

func readGroups(client kubernetes.Interface, f *Facts) error {
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		return phrase.Errorf("reading the API groups: %w", err)
	}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			f.Groups = append(f.Groups, version.GroupVersion)
		}
	}
	return nil
}

// readPolicies reads the names of admission policies and of their bindings; unknown means that the user may not.
func readPolicies(ctx context.Context, client kubernetes.Interface, f *Facts) (unknown bool, err error) {
	policies, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err == nil {
		bindings, listed := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
		if err = listed; err == nil {
			for i := range policies.Items {
				f.Policies = append(f.Policies, policies.Items[i].Name)
			}
			for i := range bindings.Items {
				f.Bindings = append(f.Bindings, bindings.Items[i].Name)
			}
			return false, nil
		}
	}
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, phrase.Errorf("reading admission policies: %w", err)
}
