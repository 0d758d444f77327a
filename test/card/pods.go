package card

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const container = "main"

// pod is a pod that asks the driver, without cards. It has the machine's network, as it needs none.
func pod(name string, words ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: g8s.SchedulerName, NodeSelector: map[string]string{g8s.LabelPool: pool}, HostNetwork: true,
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: container, Image: image, ImagePullPolicy: corev1.PullNever, Args: words,
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}},
		},
	}
}

// withCard asks for a whole card.
func withCard(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers[0].Resources.Limits[g8s.ResourceGPU] = resource.MustParse("1")
	return p
}

// withShare asks for a share of a card.
func withShare(p *corev1.Pod, mebibytes int64) *corev1.Pod {
	p.Annotations[g8s.AnnotationGPUShare] = strconv.FormatInt(mebibytes, 10) + "Mi"
	p.Spec.Containers[0].Resources.Limits[g8s.ResourceSharedGPU] = resource.MustParse("1")
	return p
}

// create makes a pod, which is removed at the end of the test.
func (b *bed) create(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if _, err := b.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.remove(t, p.Name) })
}

// remove deletes a pod, and waits until it is gone.
func (b *bed) remove(t *testing.T, name string) {
	t.Helper()
	err := b.client.CoreV1().Pods(namespace).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
		return
	}
	eventually(t, "pod "+name+" to be gone", func(ctx context.Context) bool {
		_, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// read returns a pod.
func (b *bed) read(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := b.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits until a pod's program has done something, and returns all that it said by then.
func (b *bed) await(t *testing.T, name, did string) map[string]step {
	t.Helper()
	var said map[string]step
	log, last := "", error(nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		data, err := b.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
		if log, last = string(data), err; err == nil {
			if said, last = steps(log); last == nil {
				_, done := said[did]
				if _, ended := said["end"]; done || ended {
					return said
				}
			}
		}
		sleep(ctx)
	}
	t.Fatalf("pod %s has not come to %q: %v\n%s\n%s", name, did, last, log, b.why(name))
	return nil
}

// why is what the API server knows of a pod.
func (b *bed) why(name string) string {
	ctx := context.Background()
	text := ""
	if p, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
		text = fmt.Sprintf("phase %s %s %s; %+v", p.Status.Phase, p.Status.Reason, p.Status.Message, p.Status.ContainerStatuses)
	}
	events, err := b.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return text
	}
	for i := range events.Items {
		text += "\n" + events.Items[i].Reason + ": " + events.Items[i].Message
	}
	return text
}

// chosen are the UUIDs and device nodes that the scheduler's choice for a pod stands for.
func (b *bed) chosen(t *testing.T, name string) (uuids, nodes []string) {
	t.Helper()
	assigned, err := gpu.ParseAssignment(b.read(t, name).Annotations[g8s.AnnotationGPUDevices])
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range assigned[container] {
		uuids = append(uuids, device.UUID)
		nodes = append(nodes, b.paths[device.UUID])
	}
	return uuids, nodes
}

// sees checks that a pod sees the cards that were chosen for it, and no others.
func (b *bed) sees(t *testing.T, name string, said map[string]step) {
	t.Helper()
	uuids, nodes := b.chosen(t, name)
	if len(uuids) == 0 {
		t.Errorf("no card was chosen for %s", name)
	}
	if b.mock {
		return
	}
	if wrong := seesOnly(said, uuids, nodes); wrong != "" {
		t.Errorf("%s: %s", name, wrong)
	}
}
