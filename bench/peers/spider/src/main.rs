//! Crawls the host of one URL with the spider crate, as its examples do, and
//! prints how many pages it has visited. Pages are not kept. Where its visited
//! set lives is said by LINKS_VISITED_MEMORY_LIMIT (the crate's own variable).

use spider::tokio;
use spider::website::Website;

/// Requests at once, as many as every contender makes.
const PARALLEL: usize = 16;

#[tokio::main]
async fn main() {
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: spider-peer URL");
        std::process::exit(2);
    };
    let mut site = Website::new(&url);
    site.with_respect_robots_txt(false)
        .with_delay(0)
        .with_concurrency_limit(Some(PARALLEL));
    site.crawl().await;
    println!("{{\"pages\":{}}}", site.get_size().await);
}
