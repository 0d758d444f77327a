package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostile are texts that run where a page takes text for markup or code. Each sets window.pwned.
var hostile = []string{
	`<script>window.pwned=1</script>`,
	`<img src=x onerror="window.pwned=2">`,
	`<svg onload=window.pwned=3>`,
	`"><iframe srcdoc="<script>parent.pwned=4</script>">`,
	`javascript:window.pwned=5`,
	`{{constructor.constructor('window.pwned=6')()}}`,
	`<a href="javascript:window.pwned=7">click</a>`,
	`'-(window.pwned=8)-'`,
	"</textarea></title></style><script>window.pwned=9</script>",
	"\x1b]8;;javascript:window.pwned=10\x07link\x1b]8;;\x07",
	"\u202egnp.exe<script>window.pwned=11</script>",
}

// submitJob submits a document through the API as the owner of a token.
func submitJob(ctx context.Context, token, namespace, document string) error {
	certificate, err := os.ReadFile(server.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	own := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer own.CloseIdleConnections()
	body, err := json.Marshal(map[string]string{"yamlContent": document})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/v1/jobs?namespace="+namespace, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := own.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("submitting a job: %s: %s", answer.Status, text))
	}
	return errors.Join(err, answer.Body.Close())
}

// document is a job of the tests.
type document struct {
	kind, name, pool, gpuType, description string
	priority                               string
	gpus, replicas                         int
}

func (d document) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kind: %s\njob:\n  name: %s\n", d.kind, d.name)
	if d.priority != "" {
		fmt.Fprintf(&b, "  priority: %s\n", d.priority)
	}
	if d.description != "" {
		quoted, _ := json.Marshal(d.description) // a string has no other form
		fmt.Fprintf(&b, "  description: %s\n", quoted)
	}
	fmt.Fprintf(&b, "environment:\n  image: registry.example.com/trainer:2.4\n  command: [python, train.py, --config, base.yaml]\n")
	if d.kind == "inference" {
		fmt.Fprintf(&b, "service:\n  replicas: %d\n  port: 8000\n", max(1, d.replicas))
	}
	if d.kind == "notebook" {
		fmt.Fprintf(&b, "service:\n  port: 8888\n")
	}
	fmt.Fprintf(&b, "resources:\n  gpu: %d\n  cpu: 4\n  memory: 16Gi\n", d.gpus)
	if d.pool != "" {
		fmt.Fprintf(&b, "  pool: %s\n", d.pool)
	}
	if d.gpuType != "" {
		fmt.Fprintf(&b, "  gpu-type: %s\n", d.gpuType)
	}
	return b.String()
}

// makeJobs fills the cluster as one in use: most GPUs held, some jobs that wait for different causes, a node to look at.
func makeJobs(ctx context.Context) error {
	if err := cluster.WritePodLog("epoch 1/10  loss 2.3144  lr 3.0e-4", "\x1b[33mwarning:\x1b[0m gradient norm 14.2 clipped to 1.0",
		"epoch 2/10  loss 1.9021  lr 3.0e-4", "\x1b[32mcheckpoint saved\x1b[0m  step 2000", hostile[0], hostile[1], hostile[9], hostile[10]); err != nil {
		return err
	}
	for i, text := range hostile { // first, so that lists, which have the newest first, begin with others
		job := document{kind: "notebook", name: fmt.Sprintf("hostile-%02d", i), pool: "dev-pool", gpus: 1, description: printable(text)}
		if err := submitJob(ctx, tokens[member], team, job.text()); err != nil {
			return fmt.Errorf("%s: %w", job.name, err)
		}
	}
	time.Sleep(time.Second) // times of creation are in seconds
	jobs := []document{
		{kind: "training", name: "too-big", pool: "training-pool", gpuType: "A100-100G", gpus: 16},
		{kind: "training", name: "wrong-type", gpuType: "H100-80GB", gpus: 4},
		{kind: "inference", name: "chat-70b", pool: "inference-pool", gpuType: "A100-100G", gpus: 2, replicas: 6, description: "Serves the chat of the product"},
		{kind: "inference", name: "embeddings", pool: "inference-pool", gpuType: "L40S-48G", gpus: 1, replicas: 9},
		{kind: "notebook", name: "ada-notebook", pool: "dev-pool", gpuType: "a10-24g", gpus: 1},
		{kind: "notebook", name: "eval-notebook", pool: "dev-pool", gpuType: "T4-16G", gpus: 2},
	}
	for i := range 13 {
		jobs = append(jobs, document{kind: "training", name: fmt.Sprintf("sft-qwen2-7b-%02d", i+1), pool: "training-pool", gpuType: "A100-100G", gpus: 8})
	}
	for i := range 5 {
		jobs = append(jobs, document{kind: "training", name: fmt.Sprintf("dpo-llama3-%02d", i+1), pool: "training-pool", gpuType: "A100-100G", gpus: 5})
	}
	for i := range 9 {
		jobs = append(jobs, document{kind: "training", name: fmt.Sprintf("pretrain-%02d", i+1), gpuType: "H100-80G", gpus: 8, priority: "high"})
	}
	for i, job := range jobs {
		namespace := []string{team, metav1.NamespaceDefault}[i%2]
		if err := submitJob(ctx, tokens[admin], namespace, job.text()); err != nil {
			return fmt.Errorf("%s: %w", job.name, err)
		}
	}
	if _, err := cluster.RunKubectl(ctx, "cordon", "h100-12"); err != nil {
		return err
	}
	return makeEvents(ctx)
}

// printable leaves out what documents may not have in them.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, text)
}

// makeEvents writes hostile events of a job.
func makeEvents(ctx context.Context) error {
	deployment, err := client.AppsV1().Deployments(team).Get(ctx, "inference-chat-70b", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i, text := range hostile {
		now := metav1.NewTime(time.Now())
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hostile-%d", i), Namespace: team}, Reason: "Hostile", Message: text, Type: "Warning",
			InvolvedObject: corev1.ObjectReference{Kind: "Deployment", APIVersion: "apps/v1", Namespace: team, Name: deployment.Name, UID: deployment.UID},
			FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}
		if _, err := client.CoreV1().Events(team).Create(ctx, event, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return waitFor(ctx, "jobs that run", func() bool {
		pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		return err == nil && len(pods.Items) > 20
	})
}
