package api

import (
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestARequestWithAKeyIsCarriedOutOnce sends one request many times at once: one job, and one answer for all.
func TestARequestWithAKeyIsCarriedOutOnce(t *testing.T) {
	a := start(t, server.Options{})
	a.Cleanup(func() { a.remove("once") })
	post := request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training("once")),
		header: map[string]string{"Idempotency-Key": "key-1"}}
	answers := make([]response, 10)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			built, err := post.build(t.Context(), a.URL)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := a.Client().Do(built)
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = response{status: got.StatusCode, header: got.Header}
			_ = got.Body.Close()
		})
	}
	group.Wait()
	replayed := 0
	for _, got := range answers {
		if got.status != http.StatusCreated {
			t.Errorf("status %d, want 201", got.status)
		}
		if got.header.Get("Idempotency-Replayed") == "true" {
			replayed++
		}
	}
	if replayed != len(answers)-1 {
		t.Errorf("%d answers were given again, want %d", replayed, len(answers)-1)
	}
	list, err := client.BatchV1().Jobs(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=once"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d jobs, error %v", len(list.Items), err)
	}
	post.body = yamlOf(training("another"))
	a.want(http.StatusUnprocessableEntity, post)
	post.body, post.user = yamlOf(training("once")), admin
	a.want(http.StatusConflict, post) // somebody else's key is another key
}

// TestTwoCreationsOfOneName have one winner, whoever it is.
func TestTwoCreationsOfOneName(t *testing.T) {
	a := start(t, server.Options{})
	a.Cleanup(func() { a.remove("contested") })
	statuses := make([]int, 8)
	var group sync.WaitGroup
	for i := range statuses {
		group.Go(func() {
			built, err := request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training("contested"))}.build(t.Context(), a.URL)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := a.Client().Do(built)
			if err != nil {
				t.Error(err)
				return
			}
			statuses[i] = got.StatusCode
			_ = got.Body.Close()
		})
	}
	group.Wait()
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[http.StatusCreated] != 1 || count[http.StatusConflict] != len(statuses)-1 {
		t.Errorf("statuses %v, want one 201 and all others 409", count)
	}
}
