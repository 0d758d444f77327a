package coscheduling

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// finished knows the members of gangs that have succeeded, which kube-scheduler's own list of pods leaves out. A gang of
// which one has succeeded was whole once. A member that failed and is started again after that can wait for no quorum:
// the siblings that have finished never come back. What is left of such a gang is placed pod by pod.
type finished struct{ members cache.Indexer }

// byController is the index of members by the object that made them. Their gang's name would not do: a job of the same
// name may have been submitted since.
const byController = "controller"

// watchFinished starts to watch such members until ctx ends. Where there is no cluster to ask, as in a simulation, none
// are known.
func watchFinished(ctx context.Context, client kubernetes.Interface) (finished, error) {
	if client == nil {
		return finished{}, nil
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(onlyOwners),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = names.LabelPodGroup
			options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)).String()
		}))
	informer := factory.Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{byController: controllerKeys}); err != nil {
		return finished{}, fmt.Errorf("indexing the members that have finished: %w", err)
	}
	factory.Start(ctx.Done())
	return finished{members: informer.GetIndexer()}, nil
}

// onlyOwners keeps of a pod what is asked for: there may be many that have finished.
func onlyOwners(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
	}}, nil
}

func controllerKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// before says whether a sibling of a member has succeeded.
func (f finished) before(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || f.members == nil {
		return false
	}
	siblings, err := f.members.IndexKeys(byController, string(owner.UID))
	return err == nil && len(siblings) > 0
}
