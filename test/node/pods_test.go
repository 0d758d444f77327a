package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

const namespace = metav1.NamespaceDefault

// settle waits until pods can be created.
func settle(ctx context.Context) error {
	for {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the default service account: %w", err)
		case <-time.After(pollEvery):
		}
	}
}

// kind is the part that a container plays in its pod.
type kind int

const (
	plain   kind = iota
	initial      // ends before the others start
	sidecar      // starts before the others and stays
)

// part is a container of a pod.
type part struct {
	kind  kind
	cards int
	// restarts makes it fail a moment after its first start; kubelet starts it again, and it stays.
	restarts bool
}

// shape is a pod of the waves.
type shape struct {
	parts []part
	// linger is how long its containers stay after they were told to end.
	linger time.Duration
	// force deletes the pod without waiting for its containers.
	force bool
}

// shapes are what the waves are mixed of.
var shapes = []shape{
	{parts: []part{{cards: 1}}},
	{parts: []part{{cards: 2}}},
	{parts: []part{{cards: 4}}},
	{parts: []part{{cards: 1}, {cards: 1}}},
	{parts: []part{{cards: 1}, {cards: 2}}},
	{parts: []part{{cards: 1}, {cards: 0}}},
	{parts: []part{{kind: initial, cards: 1}, {cards: 1}}},
	{parts: []part{{kind: initial, cards: 2}, {cards: 1}}},
	{parts: []part{{kind: initial}, {kind: initial, cards: 1}, {cards: 2}, {cards: 1}}},
	{parts: []part{{kind: sidecar, cards: 1}, {cards: 1}}},
	{parts: []part{{kind: sidecar}, {kind: initial, cards: 1}, {cards: 1}}},
	{parts: []part{{cards: 1, restarts: true}}},
	{parts: []part{{cards: 1, restarts: true}, {cards: 1}}},
	{parts: []part{{kind: sidecar, cards: 1, restarts: true}, {cards: 1}}},
	{parts: []part{{cards: 1}}, force: true, linger: 1500 * time.Millisecond},
	{parts: []part{{cards: 2}, {cards: 1}}, force: true, linger: time.Second},
	{parts: []part{{cards: 4}}, force: true, linger: 500 * time.Millisecond},
	{parts: []part{{cards: 8}}},
}

// cards is how many cards a pod asks for, counted as if all of its containers ran at once.
func (s shape) cards() (sum int) {
	for _, part := range s.parts {
		sum += part.cards
	}
	return sum
}

func pick(random *rand.Rand) shape { return shapes[random.IntN(len(shapes))] }

// partName is the name of a shape's i-th container.
func partName(i int) string { return fmt.Sprintf("c%d", i) }

// reportName is what a container calls itself.
func reportName(pod, container string) string { return pod + "/" + container }

// pod is a pod of a shape, for the scheduler to place.
func (s shape) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: g8s.SchedulerName, NodeSelector: map[string]string{g8s.LabelPool: pool},
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(5)),
			RestartPolicy:                 corev1.RestartPolicyAlways,
			Volumes: []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: sharedFolder},
			}}},
		},
	}
	for i, part := range s.parts {
		container := part.container(name, partName(i), s.linger)
		switch part.kind {
		case plain:
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		case sidecar:
			container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			fallthrough
		case initial:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		}
	}
	return pod
}

func (p part) container(pod, name string, linger time.Duration) corev1.Container {
	container := corev1.Container{
		Name: name, Image: realnode.ProbeImage, ImagePullPolicy: corev1.PullNever,
		Args: []string{
			"report", "--name=" + reportName(pod, name), "--to=" + reportFolder, "--lock=" + locksFolder, "--linger=" + linger.String(),
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: sharedFolder}},
	}
	switch {
	case p.kind == initial:
		container.Args = append(container.Args, "--for=100ms")
	case p.restarts:
		container.Args = append(container.Args, "--for=300ms", "--exit=3", "--first="+sharedFolder+"/"+pod+"."+name)
	}
	if p.cards > 0 {
		container.Resources.Limits = corev1.ResourceList{g8s.ResourceGPU: *resource.NewQuantity(int64(p.cards), resource.DecimalSI)}
		// What a user or an image says of cards counts for nothing.
		container.Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}, {Name: "G8S_GPU_UUIDS", Value: uuid(0) + "," + uuid(7)}}
	}
	return container
}

// starts is how often the i-th container is waited for.
func (s shape) starts(i int) int {
	if s.parts[i].restarts {
		return 2
	}
	return 1
}

// wrong says in what a container's view differs from its pod's annotation; nil when in nothing.
func wrong(assigned gpu.Assignment, container string, got probe.Report) []string {
	var faults []string
	var uuids, paths []string
	for _, device := range assigned[container] {
		uuids = append(uuids, device.UUID)
		paths = append(paths, fmt.Sprintf("/dev/nvidia%d", device.Index))
	}
	slices.Sort(uuids)
	slices.Sort(paths)
	if !slices.Equal(uuids, got.UUIDs()) {
		faults = append(faults, fmt.Sprintf("its environment has cards %v, want %v", got.UUIDs(), uuids))
	}
	var seen []string
	for _, device := range got.Devices {
		seen = append(seen, device.Path)
		if device.Error != "" {
			faults = append(faults, fmt.Sprintf("%s cannot be opened: %s", device.Path, device.Error))
		}
	}
	if !slices.Equal(paths, seen) {
		faults = append(faults, fmt.Sprintf("it has devices %v, want %v", seen, paths))
	}
	if told := got.Env["NVIDIA_VISIBLE_DEVICES"]; len(uuids) > 0 && told != "void" {
		faults = append(faults, fmt.Sprintf("NVIDIA's runtime is told to add %q", told))
	}
	if len(got.Conflicts) > 0 {
		faults = append(faults, fmt.Sprintf("another running container has its cards %v", got.Conflicts))
	}
	return faults
}

// assignment reads the cards that the scheduler chose for a pod.
func assignment(pod *corev1.Pod) (gpu.Assignment, error) {
	assigned, err := gpu.ParseAssignment(pod.Annotations[g8s.AnnotationGPUDevices])
	if err != nil {
		return nil, fmt.Errorf("pod %s: annotation %s: %w", pod.Name, g8s.AnnotationGPUDevices, err)
	}
	return assigned, nil
}

// eventually waits for something within the patience of the tests, and returns how long it took. Cleanups may use it.
func eventually(t *testing.T, what string, done func(context.Context) bool) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for !done(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
		sleep(ctx, pollEvery)
	}
	return time.Since(began)
}
