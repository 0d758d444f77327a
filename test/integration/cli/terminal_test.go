package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	gpuctl "g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// hostile sets a terminal's title, wipes it (twice: in seven and in eight bits), writes over its line, and turns the order
// of letters.
const hostile = "evil\x1b]0;owned\x07\x1b[2J\u009b2J\x7f\rgood\u202egnp.exe"

// printers are the commands that print text of others, with what they are asked. ones of several cases are separated by |.
var printers = map[string]string{
	"get jobs": "|-o wide|-o yaml|-o json|-o csv|-o name|--pods|-o jsonpath={.items[*].message}", "get nodes": "|-o wide|-o yaml",
	"get pools": "|-o yaml", "get spotpools": "|-o wide|-o yaml", "get quotas": "|-o yaml|-o wide", "get gpuquotas": "|-o wide|-o yaml", "get namespaces": "", "get labels": "", "get presets": "|-o yaml", "get reservations": "|-o wide|-o yaml",
	"describe": "sft", "describe job": "sft|sft -o yaml|sft -o json", "describe node": "wicked|wicked -o yaml", "describe pool": "wicked|wicked -o json",
	"describe spotpool": "wicked|wicked -o json",
	"describe quota":    "evil", "describe namespace": "NAMESPACE", "describe reservation": "wicked|wicked -o yaml",
	"events": "sft|sft -o json|", "why": "sft|sft -o yaml|sft -o json|sft --lang zh", "wait": "sft --timeout=200ms", "logs": "sft",
	"queue": "", "top jobs": "", "top nodes": "", "top pools": "", "top gpus": "", "doctor": "|-o yaml", "advise defrag": "",
	"export": "sft", "diff": "-f FILE", "apply": "-f FILE", "create": "-f FILE", "validate": "-f FILE", "render": "-f FILE", "simulate": "-f FILE",
	"retry": "sft", "pause": "sft", "resume": "sft", "cancel": "sft", "set priority": "sft low", "set resources": "sft gpu=1", "scale": "sft --replicas 2", "edit": "sft", "move": "sft --to wicked",
	"delete": "sft --dry-run=server", "exec": "sft -- true", "shell": "sft", "attach": "sft", "cp": "sft:/a /tmp/a", "open": "sft", "port-forward": "sft 8080",
	"drain node": "wicked --timeout 200ms|wicked --dry-run", "recover node": "wicked", "usage": "--ledger https://127.0.0.1:1",
	"run": "--image busybox --name sft date", "config view": "", "import": "FILE --image busybox",
	"support-bundle": "--dry-run|--file FILE.tar.gz", "set preset": "evil gpu=1|evil --delete", "pool adopt": "wicked",
	"secret set": "evil k=v|evil --registry ghcr.io --username evil --password-stdin", "secret list": "|-o yaml", "secret delete": "evil",
	"volume create": "evil --size 1Gi|evil --size 1Gi --class evil", "volume get": "|-o yaml", "volume delete": "evil",
	"add node": "wicked --pool evil", "remove node": "wicked", "label": "node wicked a=b",
}

// mute are those that print nothing of others. What ui draws has passed through the commands it shows, and cli/screen.
var mute = []string{"completion", "version", "init", "explain", "schema", "config set", "config unset", "ui"}

// TestNoControlReachesTheTerminal runs every command over objects whose every free text is hostile, in a pipe and on a
// terminal, and over names and files that are.
func TestNoControlReachesTheTerminal(t *testing.T) {
	s := newSession(t)
	s.wickedness()
	t.Setenv("VISUAL", "true") // an editor that changes nothing
	file := s.file("wicked.yaml", strings.Replace(training("sft"), "busybox", `"evil\e[2J\u202e"`, 1)+"# "+strings.ReplaceAll(hostile, "\x1b", "")+"\n")
	for _, path := range gpuctl.CommandPaths() {
		cases, prints := printers[path]
		if !prints && !slices.Contains(mute, path) {
			t.Errorf("say in printers or in mute whether gpuctl %s prints text of others", path)
		}
		for args := range strings.SplitSeq(cases, "|") {
			if !prints {
				continue
			}
			args = strings.NewReplacer("FILE", file, "NAMESPACE", s.namespace).Replace(args)
			all := append(strings.Fields(path), strings.Fields(args)...)
			s.checkScreen(all...)
			s.checkScreen(append(all, hostile)...)
			s.checkScreen(append(all, "--"+hostile)...)
		}
	}
	for _, args := range [][]string{{hostile}, {"get", hostile}, {"describe", "job", hostile}, {"get", "jobs", "-o", hostile}, {"--context", hostile, "get", "jobs"}} {
		s.checkScreen(args...)
	}
}

// checkScreen runs a command in a pipe and on a terminal, and looks for controls in what it says.
func (s *session) checkScreen(args ...string) {
	s.Helper()
	for _, terminal := range []bool{false, true} {
		streams, stdout, stderr := gpuctl.TestIOStreams("")
		streams.OutIsTerminal, streams.ErrIsTerminal, streams.Color = terminal, terminal, terminal
		streams.Width, streams.ErrWidth = 100, 100
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		gpuctl.Run(ctx, gpuctl.NewFactory(streams), append([]string{"gpuctl", "--kubeconfig", s.kubeconfig, "-n", s.namespace}, args...))
		cancel()
		for name, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
			if terminal { // our own ways to draw
				for _, own := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m", "\r\x1b[K"} {
					text = strings.ReplaceAll(text, own, "")
				}
			}
			if at := strings.IndexFunc(text, isControl); at >= 0 || !utf8.ValidString(text) {
				s.Errorf("gpuctl %q, on a terminal: %v: %s has a control:\n%q", args, terminal, name, text[max(0, at-60):min(len(text), at+60)])
			}
		}
	}
}

func isControl(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// wickedness makes a job, its pod and events, a node in a pool and a quota with hostile text wherever the API server takes
// any.
func (s *session) wickedness() {
	s.Helper()
	annotations := map[string]string{
		names.AnnotationDescription: hostile, names.AnnotationUser: hostile, names.AnnotationPausedAt: hostile,
		names.AnnotationSubmitted: training("sft") + "# " + hostile, names.AnnotationInventory: hostile, names.AnnotationGPUDevices: hostile,
		names.AnnotationDependsOn: "ok=" + hostile, names.AnnotationWaitsFor: hostile,
		names.AnnotationNotify: hostile, names.AnnotationNotifyFailed: hostile,
		names.AnnotationGPUShare: hostile, names.AnnotationGPUTypes: hostile,
	}
	labels := map[string]string{names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: "sft", names.LabelJobType: "training"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, SchedulerName: names.SchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: hostile, Command: []string{hostile}, Env: []corev1.EnvVar{{Name: "E", Value: hostile}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{names.ResourceGPU: resource.MustParse("1")}},
			}},
		},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "wicked", Labels: map[string]string{names.LabelPool: "wicked", names.LabelGPUType: "H100"}, Annotations: annotations},
	}
	status := corev1.NodeStatus{
		Capacity:    corev1.ResourceList{names.ResourceGPU: resource.MustParse("8")},
		Allocatable: corev1.ResourceList{names.ResourceGPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("10")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: hostile, Message: hostile}},
		NodeInfo:    corev1.NodeSystemInfo{KernelVersion: hostile, OSImage: hostile, KubeletVersion: hostile, ContainerRuntimeVersion: hostile},
	}
	s.must(client.CoreV1().Nodes().Create(background, node, metav1.CreateOptions{}))
	s.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(background, node.Name, metav1.DeleteOptions{}) })
	made, err := client.CoreV1().Nodes().Get(background, node.Name, metav1.GetOptions{})
	s.must(made, err)
	made.Status = status
	s.must(client.CoreV1().Nodes().UpdateStatus(background, made, metav1.UpdateOptions{}))

	s.wickedReservation(node.Name)
	presets := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names.PresetConfigMap}, Data: map[string]string{
		"told": fmt.Sprintf("gpu: 1\ndescription: %q\n", hostile), "broken": hostile, "field": fmt.Sprintf("%q: 1\n", hostile),
	}}
	s.must(client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(background, presets, metav1.CreateOptions{}))
	s.Cleanup(func() {
		_ = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(background, presets.Name, metav1.DeleteOptions{})
	})

	login, err := json.Marshal(map[string]any{"auths": map[string]any{hostile: map[string]string{"username": hostile}}})
	s.must(nil, err)
	s.must(client.CoreV1().Secrets(s.namespace).Create(background, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "wicked", Labels: map[string]string{names.LabelManagedBy: names.ManagedByGpuctl}},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: login},
	}, metav1.CreateOptions{}))
	job, err := client.BatchV1().Jobs(s.namespace).Create(background, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sft", Labels: labels, Annotations: annotations}, Spec: batchv1.JobSpec{Template: template},
	}, metav1.CreateOptions{})
	s.must(job, err)
	owner := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}
	template.Labels["batch.kubernetes.io/job-name"] = job.Name
	states := []corev1.PodStatus{
		{Phase: corev1.PodPending, Reason: hostile, Message: hostile, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes: " + hostile,
		}}},
		{Phase: corev1.PodFailed, Reason: hostile, Message: hostile, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: hostile, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: hostile, Message: hostile, ContainerID: hostile,
			}},
		}}},
		{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: hostile, Message: hostile}},
		}}},
	}
	for i, status := range states {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sft-%d", i), Labels: template.Labels, Annotations: annotations, OwnerReferences: owner},
			Spec:       template.Spec,
		}
		if i > 0 {
			pod.Spec.NodeName = node.Name
		}
		pod, err := client.CoreV1().Pods(s.namespace).Create(background, pod, metav1.CreateOptions{})
		s.must(pod, err)
		pod.Status = status
		s.must(client.CoreV1().Pods(s.namespace).UpdateStatus(background, pod, metav1.UpdateOptions{}))
		s.wickedEvents("Pod", pod)
	}
	s.wickedEvents("Job", job)
	s.must(client.CoreV1().ResourceQuotas(s.namespace).Create(background, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "gpuctl-quota", Annotations: annotations, Labels: map[string]string{
			names.LabelManagedBy: names.ManagedByGpuctl, names.LabelQuota: "evil",
		}},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("8")}},
	}, metav1.CreateOptions{}))
}

// wickedReservation keeps a node, and says hostile things about it.
func (s *session) wickedReservation(node string) {
	s.Helper()
	withKind(s.T, "gpureservations")
	const path = "/apis/g8s.host/v1alpha1/gpureservations"
	body, err := json.Marshal(&names.GPUReservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUReservation"},
		ObjectMeta: metav1.ObjectMeta{Name: "wicked"},
		Spec:       names.GPUReservationSpec{Nodes: []string{node}, From: metav1.Now(), To: metav1.NewTime(time.Now().Add(time.Hour)), Reason: hostile},
	})
	s.must(body, err)
	rest := client.CoreV1().RESTClient()
	s.must(nil, rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(background).Error())
	s.Cleanup(func() { _ = rest.Delete().AbsPath(path, "wicked").Do(background).Error() })
}

// wickedEvents makes events on an object, one of a refusal of pods.
func (s *session) wickedEvents(kind string, about metav1.Object) {
	s.Helper()
	for i, reason := range []string{hostile[:4], "FailedCreate", "FailedScheduling"} {
		s.must(client.CoreV1().Events(s.namespace).Create(background, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%s.%d", strings.ToLower(kind), about.GetName(), i)},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: s.namespace, Name: about.GetName(), UID: about.GetUID()},
			Reason:         reason, Message: hostile, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
			Source: corev1.EventSource{Component: hostile},
		}, metav1.CreateOptions{}))
	}
}

func (s *session) must(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
