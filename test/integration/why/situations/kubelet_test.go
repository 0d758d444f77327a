package situations

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// What containers do on the nodes of this kubelet, by what their pods say.
const (
	missingImage = "registry.example.com/nothing-there:1"
	// noProgram is a command that no image has, badProgram one that ends with exit code 3.
	noProgram, badProgram = "/no/such/program", "/crash"
	// needsMemory is a variable of the environment with how much the program uses.
	needsMemory = "NEEDS_MEMORY"
	// missingPath begins the paths that no node has.
	missingPath = "/datasets/missing"
	// wrongPath is where no program answers a probe.
	wrongPath = "/wrong"
	// lingers is a label of pods that take until they are let go to end.
	lingers = "situations/lingers"
)

// kubelet stands in for the kubelets of some nodes, which kwok leaves alone. What it says of a container follows from
// the container's specification and the objects that it refers to, in the words of a real kubelet.
type kubelet struct {
	client kubernetes.Interface

	mu    sync.Mutex
	nodes map[string]bool
	// gone are pods that may end at last, by namespace.
	gone map[string]bool
	// mended are namespaces in which the bad program runs by now.
	mended map[string]bool
	// tries counts the restarts of a pod.
	tries map[types.UID]int32
}

func newKubelet(client kubernetes.Interface) *kubelet {
	return &kubelet{client: client, nodes: map[string]bool{}, gone: map[string]bool{}, mended: map[string]bool{}, tries: map[types.UID]int32{}}
}

// serve looks after a node from now on, or no more.
func (k *kubelet) serve(node string, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[node] = on
}

// letGo has the pods of a namespace end that linger.
func (k *kubelet) letGo(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[namespace] = true
}

// mend has the bad program run in a namespace.
func (k *kubelet) mend(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mended[namespace] = true
}

func (k *kubelet) isMended(namespace string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mended[namespace]
}

func (k *kubelet) serves(node string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[node]
}

func (k *kubelet) run(ctx context.Context) {
	for beat := 0; ; beat++ {
		k.mu.Lock()
		nodes := []string{}
		for node, on := range k.nodes {
			if on {
				nodes = append(nodes, node)
			}
		}
		k.mu.Unlock()
		if len(nodes) > 0 {
			if beat%20 == 0 {
				for _, node := range nodes {
					k.renew(ctx, node)
				}
			}
			k.sync(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// renew keeps a node's lease. What fails is tried again.
func (k *kubelet) renew(ctx context.Context, node string) {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease}}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &node, ptr.To[int32](40)
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		return
	}
	if err == nil {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
}

func (k *kubelet) sync(ctx context.Context) {
	list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "spec.nodeName!="})
	if err != nil {
		return
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !k.serves(pod.Spec.NodeName) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			k.end(ctx, pod)
		} else if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			k.report(ctx, pod)
		}
	}
}

// end stops a pod that was told to leave: its containers end, its phase says so, and then its object goes.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	stays := pod.Labels[lingers] != "" && !k.gone[pod.Namespace]
	k.mu.Unlock()
	if stays {
		return
	}
	if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		k.patch(ctx, pod, corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", FinishedAt: metav1.Now()}},
		}}})
		return
	}
	_ = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

func (k *kubelet) patch(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return // which no plain value is
	}
	_, _ = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// report says what has become of a pod's container, if that is news.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod) {
	status, event := k.judge(ctx, pod)
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.Phase == status.Phase && len(status.ContainerStatuses) > 0 {
		was, is := pod.Status.ContainerStatuses[0], status.ContainerStatuses[0]
		if was.Ready == is.Ready && (was.State.Waiting == nil) == (is.State.Waiting == nil) && (was.State.Waiting == nil || was.State.Waiting.Reason == is.State.Waiting.Reason) {
			return
		}
	}
	if event != nil {
		k.record(ctx, pod, event)
	}
	k.patch(ctx, pod, status)
}

func (k *kubelet) record(ctx context.Context, pod *corev1.Pod, event *corev1.Event) {
	now := metav1.Now()
	event.GenerateName, event.Namespace = pod.Name+".", pod.Namespace
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	event.FirstTimestamp, event.LastTimestamp, event.Count, event.Type = now, now, 1, corev1.EventTypeWarning
	event.Source = corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}
	_, _ = k.client.CoreV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
}

// judge decides what becomes of the pod's first container.
func (k *kubelet) judge(ctx context.Context, pod *corev1.Pod) (corev1.PodStatus, *corev1.Event) {
	container := &pod.Spec.Containers[0]
	if path := missingVolume(pod); path != "" {
		status, _ := waits(container, "ContainerCreating", "")
		return status, &corev1.Event{Reason: "FailedMount",
			Message: fmt.Sprintf("MountVolume.SetUp failed for volume %q : hostPath type check failed: %s is not a directory", pod.Spec.Volumes[0].Name, path)}
	}
	if container.Image == missingImage {
		return waits(container, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: failed to resolve reference: not found", container.Image))
	}
	if missing := k.missingReference(ctx, pod.Namespace, container); missing != "" {
		return waits(container, "CreateContainerConfigError", missing)
	}
	return k.start(pod, container)
}

// start decides what becomes of the container's program.
func (k *kubelet) start(pod *corev1.Pod, container *corev1.Container) (corev1.PodStatus, *corev1.Event) {
	program := ""
	if len(container.Command) > 0 {
		program = container.Command[0]
	}
	switch {
	case program == noProgram:
		return waits(container, "RunContainerError", fmt.Sprintf("failed to create containerd task: failed to create shim task: OCI runtime create failed: "+
			"runc create failed: unable to start container process: exec: %q: stat %s: no such file or directory: unknown", program, program))
	case program == badProgram && !k.isMended(pod.Namespace):
		return k.died(pod, container, corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}), nil
	case needs(container) != nil && container.Resources.Limits.Memory().Cmp(*needs(container)) < 0:
		return k.died(pod, container, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), nil
	case container.ReadinessProbe != nil && container.ReadinessProbe.HTTPGet != nil && container.ReadinessProbe.HTTPGet.Path == wrongPath:
		status := running(container)
		status.ContainerStatuses[0].Ready = false
		for i := range status.Conditions {
			status.Conditions[i].Status, status.Conditions[i].Reason = corev1.ConditionFalse, "ContainersNotReady"
			status.Conditions[i].Message = "containers with unready status: [" + container.Name + "]"
		}
		return status, &corev1.Event{Reason: "Unhealthy", Message: "Readiness probe failed: HTTP probe failed with statuscode: 404"}
	}
	return running(container), nil
}

// waits is a container that has not started.
func waits(container *corev1.Container, reason, message string) (corev1.PodStatus, *corev1.Event) {
	return pending(container, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}), nil
}

// died is a container that has ended: for good where it is not started again, else on its way to the next try.
func (k *kubelet) died(pod *corev1.Pod, container *corev1.Container, end corev1.ContainerStateTerminated) corev1.PodStatus {
	end.StartedAt, end.FinishedAt = metav1.NewTime(time.Now().Add(-time.Second)), metav1.Now()
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		status := pending(container, corev1.ContainerState{Terminated: &end})
		status.Phase = corev1.PodFailed
		return status
	}
	k.mu.Lock()
	k.tries[pod.UID]++
	tries := k.tries[pod.UID]
	k.mu.Unlock()
	status := pending(container, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container=" + container.Name,
	}})
	status.Phase = corev1.PodRunning
	status.ContainerStatuses[0].RestartCount = tries
	status.ContainerStatuses[0].LastTerminationState.Terminated = &end
	return status
}

func pending(container *corev1.Container, state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodPending, Conditions: conditions(corev1.ConditionFalse),
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: state}},
	}
}

func running(container *corev1.Container) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions(corev1.ConditionTrue), StartTime: ptr.To(metav1.Now()),
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}},
	}
}

func conditions(status corev1.ConditionStatus) []corev1.PodCondition {
	out := []corev1.PodCondition{}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		condition := corev1.PodCondition{Type: kind, Status: status}
		if status == corev1.ConditionFalse {
			condition.Reason = "ContainersNotReady"
		}
		out = append(out, condition)
	}
	return out
}

func missingVolume(pod *corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil && strings.HasPrefix(volume.HostPath.Path, missingPath) {
			return volume.HostPath.Path
		}
	}
	return ""
}

// missingReference says what a container's environment refers to and is not there, as kubelets do.
func (k *kubelet) missingReference(ctx context.Context, namespace string, container *corev1.Container) string {
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if ref := variable.ValueFrom.SecretKeyRef; ref != nil {
			secret, err := k.client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			switch {
			case err != nil:
				return fmt.Sprintf("secret %q not found", ref.Name)
			case secret.Data[ref.Key] == nil:
				return fmt.Sprintf("couldn't find key %s in Secret %s/%s", ref.Key, namespace, ref.Name)
			}
		}
		if ref := variable.ValueFrom.ConfigMapKeyRef; ref != nil {
			if _, err := k.client.CoreV1().ConfigMaps(namespace).Get(ctx, ref.Name, metav1.GetOptions{}); err != nil {
				return fmt.Sprintf("configmap %q not found", ref.Name)
			}
		}
	}
	return ""
}
