package batch

import (
	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/weburl"
)

func (x *run) extract(f *finds, base weburl.URL, item *contract.Item, res *fetch.Result, plain []byte) {
}
