package scripts

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// through sends a file through a forwarded port, over several connections at a time.
func through(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: through JOB PORT FILE")
	}
	sent := []byte(ts.ReadFile(args[2]))
	whileForwarding(ts, []string{"gpuctl", "port-forward", args[0], ":" + args[1], "--address", "127.0.0.1"},
		regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `+args[1]), func(found []string) {
			const connections = 4
			answers, errs := make([][]byte, connections), make([]error, connections)
			var wait sync.WaitGroup
			for i := range connections {
				wait.Go(func() { answers[i], errs[i] = ask(http.MethodPost, "http://"+found[1]+"/", sent) })
			}
			wait.Wait()
			for i := range connections {
				ts.Check(errs[i])
				if !bytes.Equal(answers[i], sent) {
					ts.Fatalf("of %d bytes %d came back, or others", len(sent), len(answers[i]))
				}
			}
		})
}

// visit reads what gpuctl open would show in a browser.
func visit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: visit REGEXP JOB")
	}
	whileForwarding(ts, []string{"gpuctl", "open", args[1], "--no-browser", "--address", "127.0.0.1"},
		regexp.MustCompile(`(http://\S+)`), func(found []string) {
			page, err := ask(http.MethodGet, found[1], nil)
			ts.Check(err)
			if !regexp.MustCompile(args[0]).Match(page) {
				ts.Fatalf("%s shows %q", found[1], page)
			}
		})
}

// whileForwarding runs a command that forwards ports, calls use when the pattern has matched a line of its output, and
// interrupts it, after which it must end well.
func whileForwarding(ts *testscript.TestScript, args []string, pattern *regexp.Regexp, use func(found []string)) {
	command := commandOf(ts, args)
	var told bytes.Buffer
	command.Stderr = &told
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	defer func() { _ = command.Process.Kill() }() // it has ended, unless the script failed
	lines := bufio.NewScanner(out)
	var found []string
	for found == nil && lines.Scan() {
		found = pattern.FindStringSubmatch(lines.Text())
	}
	if found == nil {
		_ = command.Wait()
		ts.Fatalf("it ended before it forwarded anything: %s", told.String())
	}
	use(found)
	ts.Check(command.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out)
	if err := command.Wait(); err != nil {
		ts.Fatalf("interrupted, it ended with %v: %s", err, told.String())
	}
}

func ask(method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return io.ReadAll(answer.Body)
}
