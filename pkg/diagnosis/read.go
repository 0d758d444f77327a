package diagnosis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Read returns the facts about the jobs with a name: one, or several that differ in kind. The number of requests does not grow with the cluster. The
// user must be able to read the namespace of the job. Facts outside it that the user may not read are listed in [Facts].Cluster.Unread.
func Read(ctx context.Context, client kubernetes.Interface, namespace, name string, now time.Time) ([]Facts, error) {
	var own, cluster *snapshot.Snapshot
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		own, err = inventory.JobQuery{Namespace: namespace, Name: name, Foreign: true}.ReadDetailObjects(inner, client)
		return err
	})
	group.Go(func() (err error) {
		cluster, err = snapshot.Read(inner, client, ClusterQueries(now)...)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(inventory.BuildDetails(own), func(job inventory.JobDetail) bool {
		return job.Kind == gang.KindPod || job.Name != name // see ReadPod; Kueue's objects are read for all names
	})
	preemptors, err := readPreemptors(ctx, client, jobs)
	if err != nil {
		return nil, err
	}
	out := make([]Facts, len(jobs))
	for i := range jobs {
		out[i] = Facts{Job: jobs[i], Cluster: *cluster, Preemptors: preemptors}
		out[i].Pods = slices.DeleteFunc(slices.Clone(own.Pods), func(pod corev1.Pod) bool {
			return !jobs[i].HasPod(&pod)
		})
		if len(jobs[i].WaitsFor) > 0 || jobs[i].Reason == inventory.ReasonWaitsForJobs {
			if out[i].Others, err = inventory.NewReader(client).Jobs(ctx, inventory.JobQuery{Namespace: namespace}); err != nil {
				return nil, err
			}
		}
		if jobs[i].Reason == inventory.ReasonHeldByKueue {
			out[i].Space = &snapshot.Snapshot{KueueWorkloads: own.KueueWorkloads}
			continue // the scheduler sees no pod of it
		}
		if jobs[i].RunsWhole() || isEnded(jobs[i].Status) {
			continue // nothing waits to be let in
		}
		if out[i].Space, err = readSpace(ctx, client, namespace, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ClusterQueries returns the queries for what surrounds jobs: nodes and the pods on them, the scheduler's lease, and the time.
func ClusterQueries(now time.Time) []snapshot.Query {
	return []snapshot.Query{
		snapshot.Nodes(snapshot.Scope{Cached: true}).IfAllowed(),
		snapshot.Pods(snapshot.Scope{Fields: snapshot.PlacedPods, Cached: true}).IfAllowed(),
		snapshot.GPUPools(), snapshot.GPUReservations().IfAllowed(), snapshot.GPUQuotas().IfAllowed(), snapshot.Lease().IfAllowed(), snapshot.Clock(now),
	}
}

// maxPreemptors is how many preemptors are read: the most recent ones.
const maxPreemptors = 3

// readPreemptors reads the pods for which pods of the jobs were evicted, as far as the user may.
func readPreemptors(ctx context.Context, client kubernetes.Interface, jobs []inventory.JobDetail) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for i := range jobs {
		for _, event := range slices.Backward(slices.Concat(jobs[i].Past, jobs[i].Events)) {
			namespace, name, ok := strings.Cut(event.Related, "/")
			if !ok || event.Reason != "Preempted" || len(out) == maxPreemptors {
				continue
			}
			pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				out = append(out, *pod)
			case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("reading pod %s: %w", event.Related, err)
			}
		}
	}
	return out, nil
}

func isEnded(status inventory.Status) bool {
	return status == inventory.StatusSucceeded || status == inventory.StatusFailed || status == inventory.StatusCancelled
}

// allPods returns the job's pods, and the one that would be created next.
func allPods(f *Facts) []corev1.Pod {
	if template := templatePod(f); template != nil {
		return append(slices.Clone(f.Pods), *template)
	}
	return f.Pods
}

// claimNames returns the names of the claims that a job's pods mount.
func claimNames(pods []corev1.Pod) []string {
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

// maxVolumes is how many volumes of a job are read.
const maxVolumes = 8

// readSpace reads the rest of a job's namespace, as far as the user may: up to eleven requests, and one for each of the first volumes that the job's
// claims are bound to.
func readSpace(ctx context.Context, client kubernetes.Interface, namespace string, f *Facts) (*snapshot.Snapshot, error) {
	scope, pods := snapshot.Scope{Namespace: namespace}, allPods(f)
	wants := []snapshot.Query{
		snapshot.Namespace(namespace).IfAllowed(), snapshot.Quotas(scope).IfAllowed(), snapshot.LimitRanges(scope).IfAllowed(),
		snapshot.PriorityClasses().IfAllowed(),
	}
	wants = append(wants, gangQueries(namespace, pods)...)
	if claimDevices(pods) {
		wants = append(wants, snapshot.DeviceClaims(scope).IfAllowed(), snapshot.DeviceClaimTemplates(scope).IfAllowed(),
			snapshot.DeviceClasses().IfAllowed(), snapshot.ResourceSlices().IfAllowed())
	}
	claims := claimNames(pods)
	if len(claims) > 0 {
		wants = append(wants, snapshot.Claims(scope).IfAllowed())
	}
	out, err := snapshot.Read(ctx, client, wants...)
	if err != nil || len(claims) == 0 {
		return out, err
	}
	bound, err := snapshot.Read(ctx, client, snapshot.Volumes(boundVolumes(out.Claims, claims)...).IfAllowed())
	if err != nil {
		return nil, err
	}
	out.Volumes = bound.Volumes
	return out, nil
}

// gangQueries queries what defines the gang of the first pod that may be in one: the pods of a job are in gangs of one kind. Budgets keep pods from
// leaving for a gang.
func gangQueries(namespace string, pods []corev1.Pod) []snapshot.Query {
	at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return gang.MayBeMember(&pod) && !gpu.HasEnded(&pod) })
	if at < 0 {
		return nil
	}
	budgets := snapshot.Budgets(snapshot.Scope{Cached: true}).IfAllowed()
	if group, named := gang.NamedGroup(&pods[at]); named {
		return []snapshot.Query{snapshot.PodGroup(namespace, group.Name).IfAllowed(), budgets}
	}
	var refs []snapshot.ObjectRef
	for _, source := range gang.SourcesOf(&pods[at]) {
		refs = append(refs, snapshot.ObjectRef{Resource: source.Resource, Namespace: namespace, Name: source.Name})
	}
	return []snapshot.Query{snapshot.Objects(refs...), budgets}
}

// boundVolumes returns the first volumes to which claims of these names are bound.
func boundVolumes(claims []corev1.PersistentVolumeClaim, used []string) []string {
	var out []string
	for i := range claims {
		if volume := claims[i].Spec.VolumeName; volume != "" && slices.Contains(used, claims[i].Name) && len(out) < maxVolumes {
			out = append(out, volume)
		}
	}
	return out
}
