// Command generated calls gpuctl-server through a client that an outside generator made from docs/openapi-3.0.json alone, and which its test puts
// beside this file. It fails where an answer has another status than is documented, or none of the type that is documented for it.
//
// It is a module of its own so that the libraries of the generator never decide the versions of ours.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	_ "github.com/oapi-codegen/runtime" // the generated file imports it
)

// answer is what all methods of the client return.
type answer interface{ StatusCode() int }

func main() {
	url := flag.String("url", "", "URL of the server")
	namespace := flag.String("namespace", "default", "Namespace in which to create a job")
	job := flag.String("job", "", "File with the job's YAML; its name is generated")
	flag.Parse()
	if err := run(context.Background(), *url, os.Getenv("TOKEN"), *namespace, *job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, token, namespace, job string) error {
	text, err := os.ReadFile(job)
	if err != nil {
		return err
	}
	client, err := NewClientWithResponses(url, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	t := &tour{ctx: ctx, client: client, namespace: namespace, job: "generated", yaml: string(text)}
	for _, part := range []func(){t.aboutTheServer, t.beforeAJob, t.aJob, t.theCluster, t.theEnd} {
		if part(); t.err != nil {
			return t.err
		}
	}
	fmt.Printf("%d routes called\n", t.called)
	return nil
}

// tour calls one route after the other, and stops at the first answer that is not as documented.
type tour struct {
	ctx       context.Context
	client    *ClientWithResponses
	namespace string
	job, yaml string
	called    int
	err       error
}

func (t *tour) aboutTheServer() {
	call(t, http.StatusOK, func() (*GetVersionResponse, error) { return t.client.GetVersionWithResponse(t.ctx) })
	call(t, http.StatusOK, func() (*GetHealthResponse, error) { return t.client.GetHealthWithResponse(t.ctx) })
	call(t, http.StatusOK, func() (*GetReadyResponse, error) { return t.client.GetReadyWithResponse(t.ctx) })
	call(t, http.StatusOK, func() (*GetSelfResponse, error) { return t.client.GetSelfWithResponse(t.ctx, &GetSelfParams{}) })
	call(t, http.StatusOK, func() (*ListNamespacesResponse, error) {
		return t.client.ListNamespacesWithResponse(t.ctx, &ListNamespacesParams{})
	})
}

func (t *tour) beforeAJob() {
	call(t, http.StatusOK, func() (*ListPresetsResponse, error) {
		return t.client.ListPresetsWithResponse(t.ctx, &ListPresetsParams{})
	})
	call(t, http.StatusOK, func() (*ValidateResponse, error) {
		return t.client.ValidateWithResponse(t.ctx, ValidateJSONRequestBody{YamlContent: t.yaml})
	})
	call(t, http.StatusOK, func() (*RenderResponse, error) {
		return t.client.RenderWithResponse(t.ctx, &RenderParams{Namespace: &t.namespace}, RenderJSONRequestBody{YamlContent: t.yaml})
	})
	call(t, http.StatusOK, func() (*DiffResponse, error) {
		return t.client.DiffWithResponse(t.ctx, &DiffParams{Namespace: &t.namespace}, DiffJSONRequestBody{YamlContent: t.yaml})
	})
	dryRun := true
	batch := call(t, http.StatusMultiStatus, func() (*CreateJobsResponse, error) {
		return t.client.CreateJobsWithResponse(t.ctx, &CreateJobsParams{Namespace: &t.namespace},
			CreateJobsJSONRequestBody{YamlContents: []string{t.yaml, "kind: nonsense"}, DryRun: &dryRun})
	})
	if t.err == nil && (batch.JSON207.Success[0].HttpStatus != http.StatusOK || batch.JSON207.Failed[0].HttpStatus != http.StatusUnprocessableEntity) {
		t.err = fmt.Errorf("the statuses of a valid and an invalid document are %d and %d", batch.JSON207.Success[0].HttpStatus, batch.JSON207.Failed[0].HttpStatus)
	}
	usage := call(t, http.StatusNotFound, func() (*GetUsageResponse, error) { return t.client.GetUsageWithResponse(t.ctx, &GetUsageParams{}) })
	if t.err == nil && usage.JSON404.Code != "NotConfigured" {
		t.err = fmt.Errorf("the usage of a server without a ledger: code %q, want NotConfigured", usage.JSON404.Code)
	}
}

func (t *tour) aJob() {
	call(t, http.StatusCreated, func() (*CreateJobResponse, error) {
		return t.client.CreateJobWithResponse(t.ctx, &CreateJobParams{}, CreateJobJSONRequestBody{YamlContent: t.yaml})
	})
	list := call(t, http.StatusOK, func() (*ListJobsResponse, error) {
		return t.client.ListJobsWithResponse(t.ctx, &ListJobsParams{Namespace: &t.namespace, Name: &t.job})
	})
	if t.err == nil && list.JSON200.Total != 1 {
		t.err = fmt.Errorf("%d jobs are listed, want the one that was created", list.JSON200.Total)
	}
	changes := io.ReadCloser(http.NoBody)
	if t.err == nil {
		changes = t.watchSince(list.JSON200.ResourceVersion)
	}
	call(t, http.StatusOK, func() (*GetJobResponse, error) {
		return t.client.GetJobWithResponse(t.ctx, t.job, &GetJobParams{Namespace: &t.namespace})
	})
	call(t, http.StatusOK, func() (*GetJobSpecResponse, error) {
		return t.client.GetJobSpecWithResponse(t.ctx, t.job, &GetJobSpecParams{Namespace: &t.namespace})
	})
	call(t, http.StatusOK, func() (*ListJobPodsResponse, error) {
		return t.client.ListJobPodsWithResponse(t.ctx, t.job, &ListJobPodsParams{Namespace: &t.namespace})
	})
	call(t, http.StatusOK, func() (*ListJobEventsResponse, error) {
		return t.client.ListJobEventsWithResponse(t.ctx, t.job, &ListJobEventsParams{Namespace: &t.namespace})
	})
	call(t, http.StatusOK, func() (*ExplainJobResponse, error) {
		return t.client.ExplainJobWithResponse(t.ctx, t.job, &ExplainJobParams{Namespace: &t.namespace})
	})
	call(t, http.StatusOK, func() (*PauseJobResponse, error) {
		return t.client.PauseJobWithResponse(t.ctx, t.job, &PauseJobParams{Namespace: &t.namespace})
	})
	t.wantChange(changes) // before another one undoes it
	call(t, http.StatusOK, func() (*ResumeJobResponse, error) {
		return t.client.ResumeJobWithResponse(t.ctx, t.job, &ResumeJobParams{Namespace: &t.namespace})
	})
}

// watchSince opens a watch of what changes after a list.
func (t *tour) watchSince(version string) io.ReadCloser {
	watch := true
	answer, err := t.client.ListJobs(t.ctx, &ListJobsParams{Namespace: &t.namespace, Watch: &watch, Since: &version})
	if err != nil {
		t.err = fmt.Errorf("watching jobs: %w", err)
		return http.NoBody
	}
	t.called++
	return answer.Body
}

// wantChange reads the first event of a watch, which is of the documented type, and about the job.
func (t *tour) wantChange(changes io.ReadCloser) {
	defer func() { _ = changes.Close() }()
	if t.err != nil {
		return
	}
	name := ""
	for lines := bufio.NewScanner(changes); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			var event JobStreamEvent
			text := fmt.Sprintf(`{"event": %q, "data": %s}`, name, value)
			if t.err = json.Unmarshal([]byte(text), &event); t.err != nil {
				return
			}
			change, err := event.ValueByDiscriminator()
			if modified, ok := change.(JobStreamEventModified); err != nil || !ok || modified.Data.JobId != t.job {
				t.err = fmt.Errorf("the first change after the list is %s (%v), want that the job is modified", text, err)
			}
			return
		}
	}
	t.err = errors.New("the watch ended without a change")
}

func (t *tour) theCluster() {
	call(t, http.StatusOK, func() (*ListQueueResponse, error) {
		return t.client.ListQueueWithResponse(t.ctx, &ListQueueParams{})
	})
	call(t, http.StatusOK, func() (*ListPoolsResponse, error) { return t.client.ListPoolsWithResponse(t.ctx) })
	call(t, http.StatusOK, func() (*ListNodesResponse, error) {
		return t.client.ListNodesWithResponse(t.ctx, &ListNodesParams{})
	})
	call(t, http.StatusOK, func() (*ListQuotasResponse, error) {
		return t.client.ListQuotasWithResponse(t.ctx, &ListQuotasParams{})
	})
	call(t, http.StatusOK, func() (*ListLabelsResponse, error) { return t.client.ListLabelsWithResponse(t.ctx) })
}

func (t *tour) theEnd() {
	call(t, http.StatusOK, func() (*DeleteJobResponse, error) {
		return t.client.DeleteJobWithResponse(t.ctx, t.job, &DeleteJobParams{Namespace: &t.namespace})
	})
	missing := call(t, http.StatusNotFound, func() (*DeleteJobResponse, error) {
		return t.client.DeleteJobWithResponse(t.ctx, "none", &DeleteJobParams{Namespace: &t.namespace})
	})
	if t.err == nil && missing.JSON404.Code != "NotFound" {
		t.err = fmt.Errorf("deleting a job that does not exist: code %q, want NotFound", missing.JSON404.Code)
	}
}

// call calls a route, unless one before it failed. Its answer must have the status, and be of the type that is documented for it.
func call[A answer](t *tour, status int, route func() (A, error)) A {
	var got A
	if t.err != nil {
		return got
	}
	t.called++
	got, err := route()
	if err != nil {
		t.err = fmt.Errorf("%T: %w", got, err)
		return got
	}
	value := reflect.ValueOf(got).Elem()
	typed := value.FieldByName(fmt.Sprintf("JSON%d", status))
	if got.StatusCode() != status || !typed.IsValid() || typed.IsNil() {
		t.err = fmt.Errorf("%T: %d, want %d and a document of its type: %s", got, got.StatusCode(), status, value.FieldByName("Body").Bytes())
	}
	return got
}
