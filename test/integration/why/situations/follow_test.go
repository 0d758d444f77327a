package situations

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// carryOut does what a step says, no more and no less.
func (w *world) carryOut(step diagnosis.Step) {
	w.Helper()
	w.Logf("following: %s", step.Text)
	if own := w.does[step.Action]; own != nil {
		own(step)
		return
	}
	switch step.Action {
	case reason.Wait:
		for _, holder := range step.Holders {
			w.end(holder)
		}
	case reason.SetField:
		w.setField(step)
	case reason.Move, reason.SetPriority, reason.Resume, reason.Retry:
		w.command(step)
	case reason.Resubmit:
		w.resubmit(step)
	case reason.CreateAgain:
		if step.Command != "" {
			w.command(step)
		}
		w.recreate()
	case reason.UseNamespace:
		w.useNamespace(step)
	case reason.CreateObject:
		w.createObject(step)
	default:
		w.administer(step)
	}
}

// administer does what administrators are asked for.
func (w *world) administer(step diagnosis.Step) {
	w.Helper()
	ctx := w.Context()
	switch step.Action {
	case reason.Uncordon:
		w.patchNode(step.Name, `{"spec":{"unschedulable":false}}`)
	case reason.MendNode:
		w.patchNode(step.Name, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`, "status")
	case reason.MendGPUs, reason.CorrectNode:
		w.patchNode(step.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationInventory, w.knows[string(step.Action)]))
	case reason.AddNodes:
		w.add(w.node("added", 8))
	case reason.RaiseQuota:
		quota, err := client.CoreV1().ResourceQuotas(w.namespace).Get(ctx, step.Name, metav1.GetOptions{})
		w.must(err)
		quota.Spec.Hard[corev1.ResourceName(step.Field)] = resource.MustParse(step.Value)
		_, err = client.CoreV1().ResourceQuotas(w.namespace).Update(ctx, quota, metav1.UpdateOptions{})
		w.must(err)
	case reason.RaiseLimit:
		limits, err := client.CoreV1().LimitRanges(w.namespace).Get(ctx, step.Name, metav1.GetOptions{})
		w.must(err)
		limits.Spec.Limits[0].Max[corev1.ResourceName(step.Field)] = resource.MustParse(step.Value)
		_, err = client.CoreV1().LimitRanges(w.namespace).Update(ctx, limits, metav1.UpdateOptions{})
		w.must(err)
	case reason.LabelNamespace:
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, step.Field, step.Value)
		_, err := client.CoreV1().Namespaces().Patch(ctx, step.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		w.must(err)
	case reason.InstallPriorityClasses:
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: step.Name}, Value: 1000}
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		w.must(err)
	case reason.StartScheduler:
		w.must(startScheduler(ctx))
	case reason.OpenGate:
		w.openGates()
	default:
		w.Fatalf("nobody here knows how to carry out %+v", step)
	}
}

// end ends who holds something: a job with all its pods, or a pod.
func (w *world) end(holder diagnosis.Holder) {
	w.Helper()
	options := metav1.ListOptions{LabelSelector: names.LabelJob + "=" + holder.Job}
	if holder.Job == "" {
		options = metav1.ListOptions{FieldSelector: "metadata.name=" + holder.Pod}
	} else {
		_ = client.BatchV1().Jobs(holder.Namespace).Delete(w.Context(), holder.Job, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	}
	kubelets.letGo(holder.Namespace)
	w.must(client.CoreV1().Pods(holder.Namespace).DeleteCollection(w.Context(), metav1.DeleteOptions{}, options))
}

// setField writes a field of the YAML and applies it; what gpuctl then says to do about a job that has pods, too.
func (w *world) setField(step diagnosis.Step) {
	w.Helper()
	var value any = step.Value
	switch {
	case step.Field == "resources.tolerations":
		value = []any{toleration(step.Value)}
	case step.Value == "":
		known, ok := w.knows[step.Field]
		if !ok {
			w.Fatalf("nobody says what to write in %s: %s", step.Field, step.Text)
		}
		value = known
	case step.Field == "resources.gpu" || step.Field == "resources.nodes":
		value = int(resourceValue(step.Value))
	}
	w.set(step.Field, value)
	w.recreate()
}

func resourceValue(text string) int64 {
	quantity := resource.MustParse(text)
	return quantity.Value()
}

// toleration is that of a taint written key=value:effect.
func toleration(taint string) map[string]any {
	rest, effect, _ := strings.Cut(taint, ":")
	key, value, _ := strings.Cut(rest, "=")
	return map[string]any{"key": key, "value": value, "effect": effect}
}

// recreate applies the job's YAML; --replace is what gpuctl says to add where Kubernetes refuses a change.
func (w *world) recreate() {
	w.Helper()
	path := w.file()
	if _, stderr, code := w.try("apply", "-f", path); code != 0 {
		if !strings.Contains(stderr, "--replace") {
			w.Fatalf("gpuctl apply: exit code %d\n%s", code, stderr)
		}
		w.gpuctl("apply", "-f", path, "--replace")
	}
}

// command runs the step's own command line.
func (w *world) command(step diagnosis.Step) {
	w.Helper()
	args := strings.Fields(step.Command)
	if len(args) < 2 || args[0] != "gpuctl" {
		w.Fatalf("%s has no command of gpuctl: %q", step.Action, step.Command)
	}
	w.gpuctl(args[1:]...)
	if step.Action == reason.Move {
		w.set("resources.pool", step.Value)
	}
}

// resubmit deletes the job, corrects what the step names, and submits it again.
func (w *world) resubmit(step diagnosis.Step) {
	w.Helper()
	w.gpuctl("delete", "train", "-n", w.namespace, "--yes")
	w.eventually("the job to be gone", func(ctx context.Context) bool {
		_, err := client.BatchV1().Jobs(w.namespace).Get(ctx, "train", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && len(w.pods(ctx)) == 0
	})
	if w.raw == nil {
		if value, known := w.knows[step.Field]; known {
			w.set(step.Field, value)
		} else {
			w.corrects()
		}
		w.gpuctl("create", "-f", w.file())
		return
	}
	w.submitRaw(step.Field + step.Kind)
}

// useNamespace makes another namespace, and creates there what the step's command prints.
func (w *world) useNamespace(step diagnosis.Step) {
	w.Helper()
	text := w.gpuctl(strings.Fields(step.Command)[1:]...)
	namespace, err := client.CoreV1().Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}, metav1.CreateOptions{})
	w.must(err)
	w.accounts(namespace.Name)
	w.now = namespace.Name
	path := filepath.Join(w.TempDir(), "exported.yaml")
	w.must(os.WriteFile(path, []byte(text), 0o600))
	w.gpuctl("create", "-f", path)
}

// createObject creates what the step names. A claim gets a volume, as a provisioner would make one.
func (w *world) createObject(step diagnosis.Step) {
	w.Helper()
	ctx, meta := w.Context(), metav1.ObjectMeta{Name: step.Name, Namespace: w.namespace}
	var err error
	switch step.Kind {
	case "Secret":
		_ = client.CoreV1().Secrets(w.namespace).Delete(ctx, step.Name, metav1.DeleteOptions{}) // one without the key
		data := map[string]string{"token": "t"}
		if step.Field != "" {
			data = map[string]string{step.Field: "t"}
		}
		_, err = client.CoreV1().Secrets(w.namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: data}, metav1.CreateOptions{})
	case "ConfigMap":
		_, err = client.CoreV1().ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"token": "t"}}, metav1.CreateOptions{})
	case "ServiceAccount":
		_, err = client.CoreV1().ServiceAccounts(w.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	case "PersistentVolumeClaim":
		w.volume(w.namespace+"-"+step.Name, "10Gi", "", nil)
		w.claim(step.Name, "10Gi", "", w.namespace+"-"+step.Name)
	case "PersistentVolume":
		w.volume(w.namespace+"-made", step.Value, step.Field, nil)
	default:
		w.Fatalf("nobody here knows how to create a %s", step.Kind)
	}
	w.must(err)
}

// openGates takes the scheduling gates of the job's pods away.
func (w *world) openGates() {
	w.Helper()
	for _, pod := range w.pods(w.Context()) {
		pod.Spec.SchedulingGates = nil
		_, err := client.CoreV1().Pods(w.namespace).Update(w.Context(), &pod, metav1.UpdateOptions{})
		w.must(err)
	}
}

// volume makes a volume, on the nodes of a zone if one is given.
func (w *world) volume(name, size, class string, affinity *corev1.VolumeNodeAffinity) {
	w.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, NodeAffinity: affinity,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: name}},
		},
	}
	_, err := client.CoreV1().PersistentVolumes().Create(w.Context(), volume, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		_ = client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// claim makes a claim, of a volume if one is given.
func (w *world) claim(name, size, class, volume string) {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: volume,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	_, err := client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	w.must(err)
	if volume != "" {
		w.eventually("claim "+name+" to be bound", func(ctx context.Context) bool {
			got, err := client.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && got.Status.Phase == corev1.ClaimBound
		})
	}
}
