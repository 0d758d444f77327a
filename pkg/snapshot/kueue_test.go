package snapshot

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestKueueWorkloadsAreReadInTheVersionThatIsServed asks servers that know the newest version, an older one, and none.
func TestKueueWorkloadsAreReadInTheVersionThatIsServed(t *testing.T) {
	for served, requests := range map[string]int{"v1beta2": 1, "v1beta1": 2, "": 2} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if r.URL.Path != "/apis/kueue.x-k8s.io/"+served+"/namespaces/team/workloads" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"apiVersion": "kueue.x-k8s.io/`+served+`", "kind": "WorkloadList", "items": [{"apiVersion": "kueue.x-k8s.io/`+served+`", "kind": "Workload", "metadata": {"name": "w"}}]}`)
		}))
		t.Cleanup(server.Close)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(t.Context(), client, KueueWorkloads("team").IfAllowed())
		if err != nil {
			t.Fatal(err)
		}
		if found := len(got.KueueWorkloads) == 1; found != (served != "") || found != got.HasPart(PartKueueWorkloads) || asked != requests {
			t.Errorf("%q: found %t after %d requests, unread %v", served, found, asked, got.Unread)
		}
	}
}

// TestKueueWorkloadsAreReadByPages reads 2,500 Workloads from a server that loses its place once, and holds that each is there once.
func TestKueueWorkloadsAreReadByPages(t *testing.T) {
	const all = 2500
	for name, loses := range map[string]bool{"to the last page": false, "until the server has lost its place": true} {
		t.Run(name, func(t *testing.T) {
			most := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
				limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
				if loses && from >= 1000 {
					w.WriteHeader(http.StatusGone)
					_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}`)
					return
				}
				until, next := all, ""
				if limit > 0 && from+limit < all {
					until, next = from+limit, strconv.Itoa(from+limit)
				}
				most = max(most, until-from)
				var items []string
				for i := from; i < until; i++ {
					items = append(items, fmt.Sprintf(`{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w%d"}}`, i))
				}
				_, _ = fmt.Fprintf(w, `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadList", "metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))
			}))
			t.Cleanup(server.Close)
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			got, err := Read(t.Context(), client, KueueWorkloads(""))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for i := range got.KueueWorkloads {
				seen[got.KueueWorkloads[i].GetName()] = true
			}
			if len(seen) != all || len(got.KueueWorkloads) != all || !loses && most > listPageSize {
				t.Errorf("%d Workloads, %d of them different, at most %d at once; want %d, at most %d at once", len(got.KueueWorkloads), len(seen), most, all, listPageSize)
			}
		})
	}
}

// TestKueueWorkloadsHaveOneLimitForAllPages asks a server that is slow with each page, none of which takes as long as all may.
func TestKueueWorkloadsHaveOneLimitForAllPages(t *testing.T) {
	var pages atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages.Add(1)
		time.Sleep(kueueTimeout * 2 / 5)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadList", "metadata": {"continue": "%d"}, "items": []}`, page)
		if page > 5 {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), client, KueueWorkloads("")); !apierrors.IsNotFound(err) || pages.Load() > 3 {
		t.Errorf("after %d pages: %v", pages.Load(), err)
	}
}
