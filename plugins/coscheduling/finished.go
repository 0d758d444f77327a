package coscheduling

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
)

// finished knows the members of gangs that have succeeded, which kube-scheduler's own list of pods leaves out. A gang of
// which one has succeeded was whole once. A member that failed and is started again after that can wait for no quorum:
// the siblings that have finished never come back. What is left of such a gang is placed pod by pod.
type finished struct{ members cache.Indexer }

// byController is the index of members by the object that made them and by their gang. The gang's name would not do: a job
// of the same name may have been submitted since. Nor would the object: an Argo workflow makes one gang after the other.
const byController = "controller"

// followFinished has the scheduler's informers follow such members, so that they are known before its first cycle.
func followFinished(factory informers.SharedInformerFactory) (finished, error) {
	informer := factory.InformerFor(&keyOfFinished{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{byController: controllerKeys},
			func(options *metav1.ListOptions) {
				options.LabelSelector = names.LabelPodGroup
				options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)).String()
			})
	})
	if err := informer.SetTransform(onlyOwners); err != nil {
		return finished{}, fmt.Errorf("following the members that have finished: %w", err)
	}
	return finished{members: informer.GetIndexer()}, nil
}

// keyOfFinished is the type by which informers.SharedInformerFactory knows this informer of pods from the scheduler's own.
type keyOfFinished struct{ corev1.Pod }

// onlyOwners keeps of a pod what is asked for: there may be many that have finished.
func onlyOwners(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
		Labels: map[string]string{names.LabelPodGroup: pod.Labels[names.LabelPodGroup]},
	}}, nil
}

func controllerKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if key := controllerKey(pod); key != "" {
		return []string{key}, nil
	}
	return nil, nil
}

// controllerKey names a pod's controller and gang, "" for a pod without either.
func controllerKey(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if group, ok := pkggang.Named(pod); ok && owner != nil {
		return string(owner.UID) + "/" + group.String()
	}
	return ""
}

// before says whether a sibling of a member has succeeded.
func (f finished) before(pod *corev1.Pod) bool {
	key := controllerKey(pod)
	if key == "" || f.members == nil {
		return false
	}
	siblings, err := f.members.IndexKeys(byController, key)
	return err == nil && len(siblings) > 0
}
