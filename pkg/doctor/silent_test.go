package doctor

import "testing"

func TestWhatBecomesOfTheJobsOfASilentNode(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want Status
		text string
	}{
		"as shipped":                     {[]string{"--silent-node-after=4m"}, OK, "the jobs of a node that is silent for 4m0s run elsewhere, but for such as hold a volume for one node at a time"},
		"the default":                    {nil, OK, "the jobs of a node that is silent for 4m0s run elsewhere, but for such as hold a volume for one node at a time"},
		"machines with a watchdog":       {[]string{"--silent-node-after=4m", "--out-of-service-after=40s"}, OK, "the jobs of a node that is silent for 40s run elsewhere"},
		"a watchdog that takes longer":   {[]string{"--out-of-service-after", "10m"}, OK, "the jobs of a node that is silent for 4m0s run elsewhere, but for such as hold a volume for one node at a time"},
		"turned off":                     {[]string{"--silent-node-after=0"}, Warning, "the jobs of a silent node wait until its cloud or a person says that it is off"},
		"turned off, with a watchdog":    {[]string{"--silent-node-after=0s", "--out-of-service-after=2m"}, OK, "the jobs of a node that is silent for 2m0s run elsewhere"},
		"extraArgs of the chart go last": {[]string{"--silent-node-after=4m", "--silent-node-after=0"}, Warning, "the jobs of a silent node wait until its cloud or a person says that it is off"},
		"no duration":                    {[]string{"--silent-node-after=soon"}, Unknown, "the arguments of gpu-controller cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			check := (&Workload{Name: controllerName, Args: tc.args}).silentNodes()
			if check.Status != tc.want || check.Text.String() != tc.text {
				t.Errorf("%v: %s", check.Status, check.Text)
			}
		})
	}
}
