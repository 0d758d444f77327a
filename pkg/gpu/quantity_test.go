package gpu

import "testing"

func TestParseMiB(t *testing.T) {
	cases := map[string]struct {
		value   string
		want    int64
		wantErr string
	}{
		"binary gigabytes":                 {value: "2Gi", want: 2048},
		"exact MiB":                        {value: "2000Mi", want: 2000},
		"decimal gigabytes are rounded up": {value: "24G", want: 22889},
		"a fraction":                       {value: "1.5Gi", want: 1536},
		"bytes":                            {value: "1048576", want: 1},
		"bytes are rounded up":             {value: "1048577", want: 2},
		"the most":                         {value: "16Ti", want: 16 << 20},
		"a number without a unit":          {value: "2000", wantErr: `"2000" is less than 1Mi: write the unit too, such as 2Gi`},
		"zero":                             {value: "0", wantErr: "is less than 1Mi"},
		"negative":                         {value: "-2Gi", wantErr: "is less than 1Mi"},
		"no number":                        {value: "abc", wantErr: "is no amount of memory"},
		"empty":                            {value: "", wantErr: "is no amount of memory"},
		"blanks":                           {value: " 2Gi", wantErr: "is no amount of memory"},
		"a unit that Kubernetes lacks":     {value: "2GB", wantErr: "is no amount of memory"},
		"more than any GPU":                {value: "17Ti", wantErr: "is more than any GPU has"},
		"more than 63 bits":                {value: "99999999999999999999Mi", wantErr: "is more than any GPU has"},
		"an exponent that never ends":      {value: "1e999999999", wantErr: "is no amount of memory"},
		"an exponent by suffix":            {value: "1Ei", wantErr: "is no amount of memory"},
		"a long one":                       {value: "0000000000000000000000002Gi", wantErr: "is no amount of memory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseMiB(tc.value)
			if got != tc.want || !errorHas(err, tc.wantErr) {
				t.Errorf("got %d, %v; want %d, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
