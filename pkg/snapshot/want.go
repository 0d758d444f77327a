package snapshot

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Scope narrows a list. The zero value selects everything, as committed.
type Scope struct {
	// Namespace is one namespace, "" for all.
	Namespace string
	// Labels and Fields are selectors.
	Labels, Fields string
	// Cached lets the API server answer from memory: the list may be some milliseconds old.
	Cached bool
}

func (s Scope) applyTo(options *metav1.ListOptions) {
	options.LabelSelector, options.FieldSelector = s.Labels, s.Fields
}

// Field selectors of pods.
var (
	// LivePods are the pods that wait or hold a place.
	LivePods = fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
	// PlacedPods are the pods that hold a place on a node.
	PlacedPods = fields.OneTermNotEqualSelector("spec.nodeName", "").String() + "," + LivePods
)

// PodsOn returns the field selector for the pods that hold a place on a node.
func PodsOn(node string) string {
	return fields.OneTermEqualSelector("spec.nodeName", node).String() + "," + LivePods
}

// EventsWithReason returns the field selector for events with a reason.
func EventsWithReason(reason string) string {
	return fields.OneTermEqualSelector("reason", reason).String()
}

// Query is one query.
type Query struct {
	part     Part
	optional bool
	// fallback is the fallback if this may not be read, nil for none.
	fallback *Query
	read     func(context.Context, kubernetes.Interface, *Snapshot) error
	// follow keeps a list up to date, nil if it cannot be watched.
	follow func(ctx context.Context, client kubernetes.Interface, changed func()) watchedList
	// source lists and watches it, nil if it cannot be watched.
	source func(client kubernetes.Interface) cache.ListerWatcherWithContext
}

// IfAllowed makes a query optional, for a user without the right for it, or a cluster without such objects.
func (w Query) IfAllowed() Query {
	w.optional = true
	return w
}

// OrElse sets a smaller query for a user who may not read all of it. The part then counts as unread.
func (w Query) OrElse(less Query) Query {
	w.fallback = &less
	return w
}

// api lists and watches one kind of object.
type api[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// queryList queries the objects of one kind.
func queryList[T any, L runtime.Object](
	part Part, scope Scope, of func(kubernetes.Interface) api[L], items func(L) []T, field func(*Snapshot) *[]T,
) Query {
	return Query{
		part: part,
		read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
			var options metav1.ListOptions
			scope.applyTo(&options)
			if scope.Cached {
				options.ResourceVersion = "0"
			}
			list, err := of(client).List(ctx, options)
			if err == nil {
				*field(s) = append([]T{}, items(list)...) // an empty list may come as nil
			}
			return err
		},
		follow: func(ctx context.Context, client kubernetes.Interface, changed func()) watchedList {
			return watchList(ctx, client, listWatch(of(client), scope), field, &watchProgress{part: part, namespace: scope.Namespace, changed: changed})
		},
		source: func(client kubernetes.Interface) cache.ListerWatcherWithContext {
			return cache.ToListerWatcherWithContext(cache.ToListWatcherWithWatchListSemantics(listWatch(of(client), scope), client))
		},
	}
}

// Nodes queries nodes.
func Nodes(scope Scope) Query {
	return queryList(PartNodes, scope, func(c kubernetes.Interface) api[*corev1.NodeList] { return c.CoreV1().Nodes() },
		func(l *corev1.NodeList) []corev1.Node { return l.Items }, func(s *Snapshot) *[]corev1.Node { return &s.Nodes })
}

// fewNodes is how many nodes are read one by one. For more of them one list costs less, whatever its size.
const fewNodes = 8

// NodesNamed queries nodes by name. Nodes that are gone are left out, and there may be other nodes in the result.
func NodesNamed(nodes ...string) Query {
	if len(nodes) > fewNodes {
		return Nodes(Scope{Cached: true})
	}
	return Query{part: PartNodes, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		for _, name := range nodes {
			node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
			switch {
			case err == nil:
				s.Nodes = append(s.Nodes, *node)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		return nil
	}}
}

// Pods queries pods.
func Pods(scope Scope) Query {
	part := PartPods
	if scope.Namespace == metav1.NamespaceAll {
		part = PartAllPods
	}
	return queryList(part, scope, func(c kubernetes.Interface) api[*corev1.PodList] { return c.CoreV1().Pods(scope.Namespace) },
		func(l *corev1.PodList) []corev1.Pod { return l.Items }, func(s *Snapshot) *[]corev1.Pod { return &s.Pods })
}

// Jobs queries Jobs of Kubernetes.
func Jobs(scope Scope) Query {
	return queryList(PartJobs, scope, func(c kubernetes.Interface) api[*batchv1.JobList] { return c.BatchV1().Jobs(scope.Namespace) },
		func(l *batchv1.JobList) []batchv1.Job { return l.Items }, func(s *Snapshot) *[]batchv1.Job { return &s.Jobs })
}

// foreign narrows a scope to objects that belong to no job of gpuctl.
func (s Scope) foreign() Scope {
	s.Labels = strings.Trim("!"+names.LabelJob+","+s.Labels, ",")
	return s
}

// ForeignPods queries the pods that belong to no job of gpuctl and that name a scheduler, into [Snapshot.ForeignPods]. The scope has no fields.
func ForeignPods(scope Scope) Query {
	scope = scope.foreign()
	scope.Fields = fields.OneTermNotEqualSelector("spec.schedulerName", corev1.DefaultSchedulerName).String()
	return queryList(PartPods, scope, func(c kubernetes.Interface) api[*corev1.PodList] { return c.CoreV1().Pods(scope.Namespace) },
		func(l *corev1.PodList) []corev1.Pod { return l.Items }, func(s *Snapshot) *[]corev1.Pod { return &s.ForeignPods })
}

// ForeignJobs queries the Jobs of Kubernetes that gpuctl did not make, into [Snapshot.ForeignJobs].
func ForeignJobs(scope Scope) Query {
	return queryList(PartJobs, scope.foreign(), func(c kubernetes.Interface) api[*batchv1.JobList] { return c.BatchV1().Jobs(scope.Namespace) },
		func(l *batchv1.JobList) []batchv1.Job { return l.Items }, func(s *Snapshot) *[]batchv1.Job { return &s.ForeignJobs })
}

// Deployments queries Deployments.
func Deployments(scope Scope) Query {
	return queryList(PartDeployments, scope,
		func(c kubernetes.Interface) api[*appsv1.DeploymentList] {
			return c.AppsV1().Deployments(scope.Namespace)
		},
		func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items },
		func(s *Snapshot) *[]appsv1.Deployment { return &s.Deployments })
}

// ReplicaSets queries ReplicaSets.
func ReplicaSets(scope Scope) Query {
	return queryList(PartReplicaSets, scope,
		func(c kubernetes.Interface) api[*appsv1.ReplicaSetList] {
			return c.AppsV1().ReplicaSets(scope.Namespace)
		},
		func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items },
		func(s *Snapshot) *[]appsv1.ReplicaSet { return &s.ReplicaSets })
}

// Services queries Services.
func Services(scope Scope) Query {
	return queryList(PartServices, scope,
		func(c kubernetes.Interface) api[*corev1.ServiceList] { return c.CoreV1().Services(scope.Namespace) },
		func(l *corev1.ServiceList) []corev1.Service { return l.Items },
		func(s *Snapshot) *[]corev1.Service { return &s.Services })
}

// Events queries events.
func Events(scope Scope) Query {
	return queryList(PartEvents, scope,
		func(c kubernetes.Interface) api[*corev1.EventList] { return c.CoreV1().Events(scope.Namespace) },
		func(l *corev1.EventList) []corev1.Event { return l.Items },
		func(s *Snapshot) *[]corev1.Event { return &s.Events })
}

// Namespace queries one namespace. A missing namespace is no error.
func Namespace(name string) Query {
	return Query{part: PartNamespace, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		got, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			s.Namespaces = []corev1.Namespace{*got}
		}
		return err
	}}
}

// Namespaces queries all namespaces.
func Namespaces() Query {
	return queryList(PartNamespaces, Scope{},
		func(c kubernetes.Interface) api[*corev1.NamespaceList] { return c.CoreV1().Namespaces() },
		func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items },
		func(s *Snapshot) *[]corev1.Namespace { return &s.Namespaces })
}

// Quotas queries the quotas of namespaces, whoever created them.
func Quotas(scope Scope) Query {
	return queryList(PartQuotas, scope,
		func(c kubernetes.Interface) api[*corev1.ResourceQuotaList] {
			return c.CoreV1().ResourceQuotas(scope.Namespace)
		},
		func(l *corev1.ResourceQuotaList) []corev1.ResourceQuota { return l.Items },
		func(s *Snapshot) *[]corev1.ResourceQuota { return &s.Quotas })
}

// LimitRanges queries LimitRanges.
func LimitRanges(scope Scope) Query {
	return queryList(PartLimitRanges, scope,
		func(c kubernetes.Interface) api[*corev1.LimitRangeList] {
			return c.CoreV1().LimitRanges(scope.Namespace)
		},
		func(l *corev1.LimitRangeList) []corev1.LimitRange { return l.Items },
		func(s *Snapshot) *[]corev1.LimitRange { return &s.LimitRanges })
}

// Claims queries the claims of volumes.
func Claims(scope Scope) Query {
	return queryList(PartClaims, scope,
		func(c kubernetes.Interface) api[*corev1.PersistentVolumeClaimList] {
			return c.CoreV1().PersistentVolumeClaims(scope.Namespace)
		},
		func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items },
		func(s *Snapshot) *[]corev1.PersistentVolumeClaim { return &s.Claims })
}

// Volumes queries volumes by name. Volumes that are gone are left out.
func Volumes(volumes ...string) Query {
	return Query{part: PartVolumes, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		for _, name := range volumes {
			volume, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				s.Volumes = append(s.Volumes, *volume)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		return nil
	}}
}

// PriorityClasses queries the PriorityClasses.
func PriorityClasses() Query {
	return queryList(PartPriorityClasses, Scope{},
		func(c kubernetes.Interface) api[*schedulingv1.PriorityClassList] {
			return c.SchedulingV1().PriorityClasses()
		},
		func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items },
		func(s *Snapshot) *[]schedulingv1.PriorityClass { return &s.PriorityClasses })
}

// Budgets queries PodDisruptionBudgets.
func Budgets(scope Scope) Query {
	return queryList(PartBudgets, scope,
		func(c kubernetes.Interface) api[*policyv1.PodDisruptionBudgetList] {
			return c.PolicyV1().PodDisruptionBudgets(scope.Namespace)
		},
		func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items },
		func(s *Snapshot) *[]policyv1.PodDisruptionBudget { return &s.Budgets })
}

// PodGroup queries whether a PodGroup of a name exists.
func PodGroup(namespace, name string) Query {
	return Query{part: PartPodGroups, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		path := "/apis/" + names.PodGroupAPIVersion + "/namespaces/" + namespace + "/podgroups/" + name
		err := client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error()
		var answer apierrors.APIStatus
		switch {
		case err == nil:
			s.PodGroups = []string{name}
		case apierrors.IsNotFound(err) && errors.As(err, &answer) && answer.Status().Details != nil && answer.Status().Details.Name == name:
			return nil // rather than the kind PodGroup is missing
		}
		return err
	}}
}

// Lease queries the lease of our scheduler. A missing lease is a valid result.
func Lease() Query {
	return Query{part: PartLease, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, names.SchedulerName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			s.Lease = lease
		}
		return err
	}}
}
