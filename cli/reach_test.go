package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/golden"
)

// plainPod is one that reaches nothing beyond itself.
func plainPod() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		SchedulerName: names.SchedulerName,
		Tolerations:   []corev1.Toleration{{Key: names.ResourceGPU, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		Containers:    []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"sh", "-c", "true"}}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "sft-data"}}},
			{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
}

// TestWhatAPodReaches is told of each way beyond the pod itself, in all its containers.
func TestWhatAPodReaches(t *testing.T) {
	mount := func(source corev1.VolumeSource) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	container := func(container corev1.Container) func(*corev1.PodTemplateSpec) {
		container.Name = "setup"
		return func(p *corev1.PodTemplateSpec) { p.Spec.InitContainers = []corev1.Container{container} }
	}
	tests := map[string]struct {
		change func(*corev1.PodTemplateSpec)
		want   []string
	}{
		"a job of gpuctl's": {change: func(*corev1.PodTemplateSpec) {}},
		"the node's namespaces": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true },
			want: []string{
				"the network of its node (hostNetwork)", "the processes of its node (hostPID)",
				"the memory that processes of its node share (hostIPC)",
			},
		},
		"a service account": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "builder" },
			want:   []string{"the rights of a service account: builder"},
		},
		"a service account, by the field of old": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.DeprecatedServiceAccount = "builder" },
			want:   []string{"the rights of a service account: builder"},
		},
		"a node of its choice": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = "control-plane" },
			want:   []string{"a node past the scheduler (nodeName): control-plane"},
		},
		"the default scheduler": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.SchedulerName = "" },
			want:   []string{"another scheduler: default-scheduler"},
		},
		"a priority of the system": {
			change: func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "system-node-critical" },
			want:   []string{"a priority above all jobs: system-node-critical"},
		},
		"all taints": {
			change: func(p *corev1.PodTemplateSpec) {
				p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			},
			want: []string{"nodes with any taint (a toleration of all)"},
		},
		"a path of the node": {
			change: mount(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}),
			want:   []string{"a path of its node (hostPath): /etc"},
		},
		"a Secret": {
			change: mount(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}),
			want:   []string{"a Secret: token"},
		},
		"parts of a projected volume": {
			change: mount(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "token"}}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}},
			}}}),
			want: []string{"a Secret: token", "a token of its service account, for vault"},
		},
		"a volume from elsewhere": {
			change: mount(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/"}}),
			want:   []string{"a volume of the kind nfs"},
		},
		"a privileged container": {
			change: container(corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}),
			want:   []string{"all of its node: container setup is privileged"},
		},
		"capabilities": {
			change: container(corev1.Container{SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN", "NET_RAW"}},
			}}),
			want: []string{"capabilities of container setup: SYS_ADMIN, NET_RAW"},
		},
		"a port of the node": {
			change: container(corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 22}}}),
			want:   []string{"a port of its node (hostPort): 22"},
		},
		"Secrets in the environment": {
			change: container(corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "all"}}}},
				Env: []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "one"},
				}}}},
			}),
			want: []string{"a Secret: all", "a Secret: one"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := plainPod()
			tc.change(template)
			var got []string
			for _, text := range podPrivileges(template) {
				got = append(got, text.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestALongJobIsShownInShort, and that it is: whoever wrote it may have made it as long as they liked.
func TestALongJobIsShownInShort(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sft", Namespace: "lab"}, Spec: batchv1.JobSpec{Template: *plainPod()}}
	for i := range 300 {
		job.Spec.Template.Spec.Volumes = append(job.Spec.Template.Spec.Volumes, corev1.Volume{
			Name: strings.Repeat("v", i), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: strings.Repeat("/é", 9000)}},
		})
	}
	streams, out, _ := TestIOStreams("")
	now := time.Date(2026, 11, 1, 13, 0, 0, 0, time.UTC)
	describeReplacement(newDescription(streams), submit.Replacement{Job: job, Kept: now.Add(-time.Hour), Changed: now}, now)
	if size := out.Len(); size > 50_000 || !strings.Contains(out.String(), "é/… (18") || !strings.Contains(out.String(), "… (302)") {
		t.Errorf("what is told has %d bytes:\n%.2000s", size, out)
	}
	tree := map[string]any{"text": strings.Repeat("x", 5000), "list": []any{"a", strings.Repeat("y", 401)}}
	text, whole, err := shortYAML(tree)
	if err != nil || whole || len(text) > 1000 {
		t.Errorf("whole is %t, error %v:\n%s", whole, err, text)
	}
	if text, whole, err = shortYAML(map[string]any{"kind": "Job"}); err != nil || !whole || text != "kind: Job" {
		t.Errorf("whole is %t, error %v:\n%s", whole, err, text)
	}
}

// TestTheWorstIsShown, however much else whoever wrote the Job has it reach.
func TestTheWorstIsShown(t *testing.T) {
	template := plainPod()
	template.Spec.DeprecatedServiceAccount = "builder"
	for i := range 3 * maxShownItems {
		name := fmt.Sprintf("v%d", i)
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/datasets"}},
		})
		template.Spec.InitContainers = append(template.Spec.InitContainers, corev1.Container{
			Name: name, EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}},
		})
	}
	template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	streams, out, _ := TestIOStreams("")
	now := time.Date(2026, 11, 1, 13, 0, 0, 0, time.UTC)
	job := &batchv1.Job{Spec: batchv1.JobSpec{Template: *template}}
	describeReplacement(newDescription(streams), submit.Replacement{Job: job, Kept: now.Add(-time.Hour)}, now)
	for _, want := range []string{"container main is privileged", "the rights of a service account: builder"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

// TestAJobThatOthersMayHaveWrittenIsShown before it is made, and last, before the question, what is dangerous.
func TestAJobThatOthersMayHaveWrittenIsShown(t *testing.T) {
	template := plainPod()
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
		Name: "etc", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}},
	})
	template.Spec.Containers[0].Image = "evil\x1b[2J"
	template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	template.Spec.ServiceAccountName = "builder"
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: "sft", Namespace: "lab", Annotations: map[string]string{names.AnnotationUser: "alice"}},
		Spec:       batchv1.JobSpec{Template: *template},
	}
	object, err := render.Tree(job)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 1, 13, 0, 0, 0, time.UTC)
	for _, language := range phrase.Languages() {
		streams, _, told := TestIOStreams("n\n")
		streams.InIsTerminal, streams.ErrIsTerminal, streams.ErrWidth, streams.Language = true, true, 100, phrase.Language(language)
		factory := NewFactory(streams)
		factory.Now = func() time.Time { return now }
		o := &resumeOptions{jobVerb: &jobVerb{factory: factory}}
		err := o.confirmReplacement(submit.Replacement{
			Ref: submit.Ref{Namespace: "lab", Name: "sft"}, Job: job, Object: object, Digest: "sha256:00", Lease: "gpuctl-again-sft",
			Kept: now.Add(-time.Hour), Changed: now.Add(-time.Minute),
		})
		if exitCode(err) != exitUsage {
			t.Errorf("the answer no ends with %v", err)
		}
		golden.Compare(t, "testdata/resume-unseen-"+language+".golden", told.String())
	}
}
