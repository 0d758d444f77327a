package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// Reader gathers facts, in a number of requests that does not grow with the cluster.
type Reader struct{ client kubernetes.Interface }

// NewReader returns a reader of a cluster.
func NewReader(client kubernetes.Interface) *Reader { return &Reader{client: client} }

// Read returns the facts about the jobs of a name: one, or several that differ in kind. The user must be able to read
// the namespace of the job; what lies outside it and may not be read is listed in [Facts].Unread.
func (r *Reader) Read(ctx context.Context, namespace, name string, now time.Time) ([]Facts, error) {
	query := inventory.JobQuery{Namespace: namespace, Name: name}
	shared := Facts{Now: now}
	var jobs []inventory.JobDetail
	var pods *corev1.PodList
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		jobs, err = inventory.NewReader(r.client).Details(inner, query)
		return err
	})
	group.Go(func() (err error) {
		selector := names.LabelJob + "=" + name
		if pods, err = r.client.CoreV1().Pods(namespace).List(inner, metav1.ListOptions{LabelSelector: selector}); err != nil {
			return fmt.Errorf("listing the job's pods: %w", err)
		}
		return nil
	})
	outside := r.outside(inner, group, &shared)
	err := group.Wait()
	if err != nil {
		return nil, err
	}
	shared.Unread = outside()
	if shared.Preemptors, err = r.preemptors(ctx, jobs); err != nil {
		return nil, err
	}
	out := make([]Facts, len(jobs))
	for i := range jobs {
		out[i] = shared
		out[i].Job = jobs[i]
		out[i].Pods = slices.DeleteFunc(slices.Clone(pods.Items), func(pod corev1.Pod) bool {
			return pod.Labels[names.LabelJobType] != jobs[i].Kind
		})
		if jobs[i].Status == inventory.StatusRunning || isEnded(jobs[i].Status) {
			continue // nothing waits to be let in
		}
		if out[i].Space, err = r.space(ctx, namespace, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mostPreemptors is how many pods are read for which others had to leave: those that did it last.
const mostPreemptors = 3

// preemptors reads the pods for which pods of the jobs had to leave, as far as the user may.
func (r *Reader) preemptors(ctx context.Context, jobs []inventory.JobDetail) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for i := range jobs {
		for _, event := range slices.Backward(slices.Concat(jobs[i].Past, jobs[i].Events)) {
			namespace, name, ok := strings.Cut(event.Related, "/")
			if !ok || event.Reason != "Preempted" || len(out) == mostPreemptors {
				continue
			}
			pod, err := r.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err := unlessForbidden(err, "reading pod "+event.Related); err != nil {
				return nil, err
			}
			if err == nil {
				out = append(out, *pod)
			}
		}
	}
	return out, nil
}

func isEnded(status inventory.Status) bool {
	return status == inventory.StatusSucceeded || status == inventory.StatusFailed || status == inventory.StatusCancelled
}

// claimsOf returns the names of the claims that a job's pods mount.
func claimsOf(f *Facts) []string {
	pods := slices.Clone(f.Pods)
	if template := podOf(f); template != nil {
		pods = append(pods, *template)
	}
	var out []string
	for i := range pods {
		for _, volume := range pods[i].Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				out = append(out, volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mostVolumes is how many volumes of a job are read.
const mostVolumes = 8

// space reads what the namespace of a job holds beside it, as far as the user may: up to six requests, and one for each
// of the first volumes that the job's claims are bound to.
func (r *Reader) space(ctx context.Context, namespace string, f *Facts) (Space, error) {
	var out Space
	claims := claimsOf(f)
	core := r.client.CoreV1()
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		got, err := core.Namespaces().Get(inner, namespace, metav1.GetOptions{})
		if err == nil {
			out.Namespace = got
		}
		return unlessForbidden(err, "reading the namespace")
	})
	group.Go(func() error {
		list, err := core.ResourceQuotas(namespace).List(inner, metav1.ListOptions{})
		if err == nil {
			out.Quotas = Listed[corev1.ResourceQuota]{Items: list.Items, Read: true}
		}
		return unlessForbidden(err, "listing quotas")
	})
	group.Go(func() error {
		list, err := core.LimitRanges(namespace).List(inner, metav1.ListOptions{})
		if err == nil {
			out.Limits = Listed[corev1.LimitRange]{Items: list.Items, Read: true}
		}
		return unlessForbidden(err, "listing limit ranges")
	})
	group.Go(func() error {
		list, err := r.client.SchedulingV1().PriorityClasses().List(inner, metav1.ListOptions{})
		if err == nil {
			out.Classes = Listed[schedulingv1.PriorityClass]{Items: list.Items, Read: true}
		}
		return unlessForbidden(err, "listing priority classes")
	})
	if template := podOf(f); template != nil && template.Labels[names.LabelPodGroup] != "" {
		group.Go(func() (err error) {
			out.Groups, err = r.group(inner, namespace, template.Labels[names.LabelPodGroup])
			return err
		})
	}
	if len(claims) > 0 {
		group.Go(func() (err error) {
			out.Claims, out.Volumes, err = r.claims(inner, namespace, claims)
			return err
		})
	}
	return out, group.Wait()
}

// claims reads the claims of a namespace, and the volumes that some of them are bound to.
func (r *Reader) claims(ctx context.Context, namespace string, used []string) (Listed[corev1.PersistentVolumeClaim], []corev1.PersistentVolume, error) {
	list, err := r.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Listed[corev1.PersistentVolumeClaim]{}, nil, unlessForbidden(err, "listing claims of volumes")
	}
	var volumes []corev1.PersistentVolume
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Spec.VolumeName == "" || !slices.Contains(used, claim.Name) || len(volumes) == mostVolumes {
			continue
		}
		volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		switch {
		case err == nil:
			volumes = append(volumes, *volume)
		case !apierrors.IsNotFound(err):
			if err := unlessForbidden(err, "reading volume "+claim.Spec.VolumeName); err != nil {
				return Listed[corev1.PersistentVolumeClaim]{}, nil, err
			}
		}
	}
	return Listed[corev1.PersistentVolumeClaim]{Items: list.Items, Read: true}, volumes, nil
}

// group looks for a PodGroup. It has no Go type here: that would bind gpuctl to one scheduler.
func (r *Reader) group(ctx context.Context, namespace, name string) (Listed[string], error) {
	path := "/apis/" + names.PodGroupAPIVersion + "/namespaces/" + namespace + "/podgroups/" + name
	err := r.client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error()
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return Listed[string]{Read: true, Items: []string{name}}, nil
	case apierrors.IsNotFound(err) && errors.As(err, &answer) && answer.Status().Details != nil && answer.Status().Details.Name == name:
		return Listed[string]{Read: true}, nil // and not that the cluster knows no PodGroups
	}
	return Listed[string]{}, unlessForbidden(err, "reading PodGroup "+name)
}

// unlessForbidden lets what the user may not read be unknown, and what is not there.
func unlessForbidden(err error, doing string) error {
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Around returns what lies around jobs: nodes, who is on them, and the scheduler's lease. What may not be read is listed
// in [Facts].Unread.
func (r *Reader) Around(ctx context.Context, now time.Time) (Facts, error) {
	facts := Facts{Now: now}
	group, inner := errgroup.WithContext(ctx)
	unread := r.outside(inner, group, &facts)
	if err := group.Wait(); err != nil {
		return Facts{}, err
	}
	facts.Unread = unread()
	return facts, nil
}

// outside starts to read what lies outside the job's namespace. The function it returns tells, after the group's
// end, what may not be read.
func (r *Reader) outside(ctx context.Context, group *errgroup.Group, facts *Facts) func() []string {
	const fromCache = "0" // some milliseconds old, and read from memory
	refused := make([]string, 3)
	group.Go(func() error {
		list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
		if err == nil {
			facts.Nodes = list.Items
		}
		return forbidden(err, "listing nodes", UnreadNodes, &refused[0])
	})
	group.Go(func() error {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			ResourceVersion: fromCache,
			FieldSelector:   inventory.HoldsNode,
		})
		if err == nil {
			facts.Holders = list.Items
		}
		return forbidden(err, "listing the pods on nodes", UnreadPods, &refused[1])
	})
	group.Go(func() error {
		lease, err := r.lease(ctx)
		facts.Lease = lease
		if lease != nil {
			facts.ServerTime = inventory.ServerTime(ctx, r.client, facts.Now)
		}
		return forbidden(err, "reading the scheduler's lease", UnreadLease, &refused[2])
	})
	return func() []string {
		return slices.DeleteFunc(refused, func(what string) bool { return what == "" })
	}
}

// lease returns the lease of our scheduler, nil if it has none.
func (r *Reader) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := r.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, names.SchedulerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// forbidden notes a right that the user lacks, and returns every other error.
func forbidden(err error, doing, what string, unread *string) error {
	if apierrors.IsForbidden(err) {
		*unread = what
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
