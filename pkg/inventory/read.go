package inventory

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Reader reads the cluster through the API server. The number of requests of each method is constant.
type Reader struct{ client kubernetes.Interface }

// NewReader returns a Reader that reads with client's identity.
func NewReader(client kubernetes.Interface) *Reader { return &Reader{client: client} }

// fromCache lets the API server answer from memory: a listing may be some milliseconds old.
const fromCache = "0"

// HoldsNode is the field selector of the pods that hold a place on a node.
var HoldsNode = fields.AndSelectors(
	fields.OneTermNotEqualSelector("spec.nodeName", ""),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

// Fleet reads the nodes and pools: two requests.
func (r *Reader) Fleet(ctx context.Context) (Cluster, error) {
	var objects Objects
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		objects.Nodes = list.Items
		return nil
	})
	group.Go(func() error {
		options := metav1.ListOptions{ResourceVersion: fromCache, FieldSelector: HoldsNode}
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		objects.Pods = list.Items
		return nil
	})
	if err := group.Wait(); err != nil {
		return Cluster{}, err
	}
	return Build(objects), nil
}

// JobQuery says which jobs to read. The zero value reads all jobs of all namespaces.
type JobQuery struct {
	// Namespace is one namespace, or "" for all.
	Namespace string
	// Name is the name of one job, or "" for all.
	Name string
	// Selector is a label selector that jobs and their pods must match, or "" for all.
	Selector string
}

func (q JobQuery) selector() string {
	out := names.LabelJob + "," + names.LabelJobType
	if q.Name != "" {
		out = names.LabelJob + "=" + q.Name + "," + names.LabelJobType
	}
	if q.Selector != "" {
		out += "," + q.Selector
	}
	return out
}

// NotFoundError says that there is no job of that name.
type NotFoundError struct{ Namespace, Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("job %q in namespace %s not found", e.Name, e.Namespace)
}

// AmbiguousError says that several jobs have one name. They differ in kind, and gpuctl has not made them all.
type AmbiguousError struct {
	Namespace, Name string
	Kinds           []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s has several jobs named %q: %s", e.Namespace, e.Name, strings.Join(e.Kinds, ", "))
}

// Job reads the one job of a name: a [NotFoundError] if there is none, an [AmbiguousError] if there are several.
func (r *Reader) Job(ctx context.Context, namespace, name string) (Job, error) {
	query := JobQuery{Namespace: namespace, Name: name}
	jobs, err := r.Jobs(ctx, query)
	if err != nil {
		return Job{}, err
	}
	return query.Only(jobs)
}

// Only returns the only job of a list that was read with this query, which names one.
func (q JobQuery) Only(jobs []Job) (Job, error) {
	switch len(jobs) {
	case 0:
		return Job{}, &NotFoundError{Namespace: q.Namespace, Name: q.Name}
	case 1:
		return jobs[0], nil
	}
	kinds := make([]string, len(jobs))
	for i := range jobs {
		kinds[i] = jobs[i].Kind
	}
	return Job{}, &AmbiguousError{Namespace: q.Namespace, Name: q.Name, Kinds: kinds}
}

// Jobs reads jobs and their pods: three requests, and two more when a job has fewer pods than it should have.
// It reads what is committed, so that a job is listed as soon as its creation has returned.
func (r *Reader) Jobs(ctx context.Context, query JobQuery) ([]Job, error) {
	objects, err := r.jobObjects(ctx, query)
	if err != nil {
		return nil, err
	}
	jobs := Build(objects).Jobs
	if !anyShort(jobs) {
		return jobs, nil
	}
	if err := r.refusals(ctx, query.Namespace, &objects); err != nil {
		return nil, err
	}
	return Build(objects).Jobs, nil
}

// refusals reads what may keep pods from being created: the events that say so, and the quotas, if the user may.
func (r *Reader) refusals(ctx context.Context, namespace string, objects *Objects) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("reason", reasonFailedCreate).String()}
		events, err := r.client.CoreV1().Events(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing events: %w", err)
		}
		objects.Events = events.Items
		return nil
	})
	group.Go(func() (err error) {
		objects.Quotas, err = r.Bounds(ctx, namespace)
		return err
	})
	return group.Wait()
}

// anyShort reports whether some job waits for pods that do not exist: one that has ended stands for none.
func anyShort(jobs []Job) bool {
	_, short := find(jobs, func(j Job) bool {
		return (j.Status == StatusPending || j.Status == StatusDegraded) && len(j.Pods) < int(j.Desired) || j.lacking() > 0
	})
	return short
}

func (r *Reader) jobObjects(ctx context.Context, query JobQuery) (Objects, error) {
	var objects Objects
	options := metav1.ListOptions{LabelSelector: query.selector()}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		list, err := r.client.BatchV1().Jobs(query.Namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing jobs: %w", err)
		}
		objects.Jobs = list.Items
		return nil
	})
	group.Go(func() error {
		list, err := r.client.AppsV1().Deployments(query.Namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing deployments: %w", err)
		}
		objects.Deployments = list.Items
		return nil
	})
	group.Go(func() error {
		list, err := r.client.CoreV1().Pods(query.Namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		objects.Pods = list.Items
		return nil
	})
	return objects, group.Wait()
}

// NodePods reads the pods that hold a place on a node: one request. Pods of jobs come with the job's labels.
func (r *Reader) NodePods(ctx context.Context, node string) ([]NodePod, error) {
	selector := fields.AndSelectors(fields.ParseSelectorOrDie(HoldsNode), fields.OneTermEqualSelector("spec.nodeName", node))
	list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	return buildNodePods(list.Items), nil
}
