package snapshot

import (
	"context"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clock queries the time of the API server, in the time zone of now. It is now if the server does not tell the time.
func Clock(now time.Time) Query {
	return Query{part: "the time", read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		s.Now = now
		if at, ok := serverTime(ctx, client); ok {
			s.Now, s.ClockTold = at.In(now.Location()), true
		}
		return nil
	}}
}

// serverTime asks the API server what time it is, to the second.
func serverTime(ctx context.Context, client kubernetes.Interface) (time.Time, bool) {
	api, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || api == nil || api.Client == nil {
		return time.Time{}, false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, api.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return time.Time{}, false
	}
	response, err := api.Client.Do(request)
	if err != nil {
		return time.Time{}, false
	}
	defer response.Body.Close() //nolint:errcheck // it has none
	at, err := http.ParseTime(response.Header.Get("Date"))
	return at, err == nil
}
