package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// planted is in every secret of TestSupportBundleHasNoSecrets.
const planted = "S3cr3tPlanted9"

// unpacked are the files of a bundle, by name.
func unpacked(t *testing.T, file string) map[string]string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	packed, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "gpuctl-support/")] = string(content)
	}
}

// TestSupportBundleHasNoSecrets plants secrets wherever users put them, and takes a bundle.
func TestSupportBundleHasNoSecrets(t *testing.T) {
	s := newSession(t)
	ours := map[string]string{"app.kubernetes.io/part-of": "g8s"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "waits", Labels: ours, Annotations: map[string]string{"example.com/note": planted, "g8s.host/submitted": planted}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Command: []string{"sh", "-c", "mysql -p" + planted + "; train --wandb-key " + planted},
			Args: []string{"--api-token", planted, "--url=https://u:" + planted + "@h/", "ada:" + planted},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Key", Value: planted}},
			}}},
			Env: []corev1.EnvVar{{Name: "PLAIN_NAME", Value: planted}},
		}}},
	}
	s.must(client.CoreV1().Pods(s.namespace).Create(background, pod, metav1.CreateOptions{}))
	s.must(client.CoreV1().Secrets(s.namespace).Create(background, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: ours}, StringData: map[string]string{"k": planted},
	}, metav1.CreateOptions{}))
	for _, namespace := range []string{s.namespace, metav1.NamespaceSystem} {
		s.must(client.CoreV1().ConfigMaps(namespace).Create(background, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "ours-" + s.namespace, Labels: ours}, Data: map[string]string{"config.yaml": "qps: 5\ntoken: " + planted + "\n"},
		}, metav1.CreateOptions{}))
	}
	t.Cleanup(func() {
		_ = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(background, "ours-"+s.namespace, metav1.DeleteOptions{})
	})
	s.must(client.CoreV1().ConfigMaps(s.namespace).Create(background, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"x": planted},
	}, metav1.CreateOptions{}))
	s.must(client.CoreV1().Events(s.namespace).Create(background, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: corev1.EventTypeWarning, Message: "pulling with Bearer " + planted + "AAAA failed",
		InvolvedObject: corev1.ObjectReference{Namespace: s.namespace, Name: "waits"},
	}, metav1.CreateOptions{}))

	file := filepath.Join(t.TempDir(), "b.tar.gz")
	s.expect(0, "", "", "support-bundle", "--file", file)
	files := unpacked(t, file)
	for name, content := range files {
		if strings.Contains(content, planted) {
			t.Errorf("%s has the secret", name)
		}
	}
	for name, want := range map[string]string{
		"objects/pods-that-wait.json": "PLAIN_NAME", "objects/our-configuration.json": "qps: 5", "objects/warnings.json": "pulling with Bearer",
		"version.json": "client", "doctor.json": "items", "index.json": "objects/gpupools.json",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q: %.300s", name, want, files[name])
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	s.expect(2, "is there already", "", "support-bundle", "--file", file)
	s.expect(2, "there is no folder", "", "support-bundle", "--file", filepath.Join(t.TempDir(), "no-such-folder", "b.tar.gz"))
}
