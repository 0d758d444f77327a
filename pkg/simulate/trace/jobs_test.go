package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const header = "timestamp,duration,num_gpus,gpu_time,cluster\n"

func TestReadTraceOrdersJobsAndCountsFromTheFirst(t *testing.T) {
	got, err := ReadJobs(strings.NewReader(header +
		"2017-10-09 07:01:55,66.0,1,66.0,a\n" +
		"2017-10-08 07:01:55,0.5,16,8.0,b\n" +
		"2017-10-09 07:01:55,0,12,0,c\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []*Job{
		{ID: 0, Runtime: 500 * time.Millisecond, GPUs: 16, VC: "b"},
		{ID: 1, Submit: 24 * time.Hour, Runtime: 66 * time.Second, GPUs: 1, VC: "a"},
		{ID: 2, Submit: 24 * time.Hour, GPUs: 12, VC: "c"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestReadTraceSaysWhereAndWhatIsWrong(t *testing.T) {
	const good = "2017-10-09 07:01:55,66.0,1,66.0,a\n"
	for name, tc := range map[string]struct{ input, want string }{
		"nothing at all":           {"", "it is empty"},
		"no jobs":                  {header, "it has no jobs"},
		"another format":           {"name,cpu_milli\n", `line 1: the columns are ["name" "cpu_milli"]`},
		"a date without a time":    {header + good + "2017-10-09,66.0,1,66.0,a\n", `line 3: timestamp "2017-10-09"`},
		"a negative duration":      {header + "2017-10-09 07:01:55,-1,1,66.0,a\n", `line 2: duration "-1"`},
		"a duration that is none":  {header + "2017-10-09 07:01:55,NaN,1,66.0,a\n", `line 2: duration "NaN"`},
		"a duration past overflow": {header + "2017-10-09 07:01:55,1e30,1,66.0,a\n", `line 2: duration "1e30"`},
		"no GPUs":                  {header + "2017-10-09 07:01:55,66.0,0,66.0,a\n", `line 2: num_gpus "0"`},
		"part of a GPU":            {header + "2017-10-09 07:01:55,66.0,0.5,66.0,a\n", `line 2: num_gpus "0.5"`},
		"a row cut short":          {header + good + good + "2017-10-09 07:01:55,66.0\n", "line 4: wrong number of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadJobs(strings.NewReader(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}
