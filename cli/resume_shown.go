package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// Limits for showing a Job that others may have written: its author may have made it long, so that it scrolls off the screen.
const (
	maxShownText  = 400
	maxShownLines = 200
	maxShownItems = 10
)

// describeReplacement describes a Job that others may have written. Last, next to the question that follows, it lists what the Job could access
// beyond its own pods.
func describeReplacement(d *description, r submit.Replacement, now time.Time) {
	template := &r.Job.Spec.Template
	d.writeText("Kept", keptSinceText(r, now))
	d.writeField("User", shortText(r.Job.Annotations[names.AnnotationUser]))
	containers := allContainers(&template.Spec)
	for _, container := range containers[:min(len(containers), maxShownItems)] {
		d.writeField("Image", shortText(container.Image))
		d.writeField("Command", shortText(strings.Join(slices.Concat(container.Command, container.Args), " ")))
	}
	d.writeField("GPUs", gpusPerPod(template))
	d.writeField("Pool", shortText(r.Job.Labels[names.LabelPool]))
	d.writeLines("Volumes", volumeLines(&template.Spec))
	d.writeField("Account", shortText(serviceAccountName(&template.Spec)))
	d.writeField("Digest", r.Digest)
	var reaches []string
	for _, text := range podPrivileges(template) {
		reaches = append(reaches, text.Localize(d.language))
	}
	d.writeLines("Reaches", firstLines(reaches, maxShownItems))
}

// keptSinceText says since when a Lease has held the Job, and whether it was changed.
func keptSinceText(r submit.Replacement, now time.Time) phrase.Text {
	text := phrase.Textf("since %s", momentText(r.Kept, now))
	if !r.Changed.IsZero() {
		text = text.Addf(", and changed at %s, as gpuctl never does", momentText(r.Changed, now))
	}
	return text
}

func allContainers(spec *corev1.PodSpec) []corev1.Container {
	return slices.Concat(spec.InitContainers, spec.Containers)
}

// gpusPerPod returns how many GPUs each pod requests; "" if that is unknown.
func gpusPerPod(template *corev1.PodTemplateSpec) string {
	request, err := gpu.RequestOf(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	if err != nil || request.Whole == 0 {
		return ""
	}
	return strconv.FormatInt(request.Whole, 10)
}

// volumeLines lists the volumes of a pod, each with its kind and a short source.
func volumeLines(spec *corev1.PodSpec) []string {
	var out []string
	for i := range spec.Volumes {
		if i == maxShownItems {
			return append(out, fmt.Sprintf("… (%d)", len(spec.Volumes)))
		}
		volume := &spec.Volumes[i]
		of := ""
		switch source := &volume.VolumeSource; {
		case source.HostPath != nil:
			of = " " + source.HostPath.Path
		case source.PersistentVolumeClaim != nil:
			of = " " + source.PersistentVolumeClaim.ClaimName
		case source.ConfigMap != nil:
			of = " " + source.ConfigMap.Name
		case source.Secret != nil:
			of = " " + source.Secret.SecretName
		}
		out = append(out, shortText(fmt.Sprintf("%s: %s%s", volume.Name, volumeKind(volume), of)))
	}
	return out
}

// volumeKind returns the key of a volume's source, such as hostPath.
func volumeKind(volume *corev1.Volume) string {
	data, err := json.Marshal(volume.VolumeSource)
	if err != nil {
		return ""
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(string(data), `{"`), `"`)
	return kind
}

func firstLines(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	return append(lines[:most:most], fmt.Sprintf("… (%d)", len(lines)))
}

// shortText truncates a long text of others, and appends its length.
func shortText(text string) string {
	if len(text) <= maxShownText {
		return text
	}
	return strings.ToValidUTF8(text[:maxShownText], "") + fmt.Sprintf("… (%d)", utf8.RuneCountInString(text))
}

// shortYAML formats an object as YAML with long parts truncated, and reports whether it is complete.
func shortYAML(object map[string]any) (text string, whole bool, err error) {
	whole = true
	data, err := yaml.Marshal(shortenTree(object, &whole))
	if err != nil {
		return "", false, phrase.Errorf("encoding the result: %w", err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(firstLines(lines, maxShownLines), "\n"), whole && len(lines) <= maxShownLines, nil
}

// shortenTree returns a tree with long texts truncated, and sets whole to false if any was.
func shortenTree(tree any, whole *bool) any {
	switch node := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for key, value := range node {
			out[key] = shortenTree(value, whole)
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i, value := range node {
			out[i] = shortenTree(value, whole)
		}
		return out
	case string:
		*whole = *whole && len(node) <= maxShownText
		return shortText(node)
	}
	return tree
}
